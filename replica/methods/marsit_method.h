// `marsit`: Adam's directions in signs, over a ring. Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_MARSIT_METHOD_H_
#define SHOAL_REPLICA_METHODS_MARSIT_METHOD_H_

#include <cstdint>
#include <string>

#include "replica/methods/method_entry.h"
#include "replica/methods/warm_up.h"

namespace shoal::replica {

// How the members of a group pass vectors on.
enum class RingShape : std::uint8_t {
  kAuto,  // a torus from 8 members on
  kRing,
  kTorus,  // the most square one; a ring for a prime number of members
};

struct MarsitOptions {
  std::uint64_t every = 0;  // one round of so many is exact; 0: see EveryOf
  double scale = 8;         // what a sign is worth, in mean magnitudes of a tensor
  RingShape shape = RingShape::kAuto;
  WarmUp warm_up;

  // `every`, with 0 by the number of pipelines: the sign that all get is one member's, which tells
  // less of the mean the more members there are, and the longer their memories drift apart.
  std::uint64_t EveryOf(std::uint32_t pipelines) const;
  std::string Spec() const;
};

// Of a method of this kind; anything else is a bug.
const MarsitOptions& MarsitOptionsOf(const ReplicaMethod& method);

const MethodEntry& MarsitEntry();

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_MARSIT_METHOD_H_
