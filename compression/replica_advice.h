// ReplicaAdvice: which `[replica] method` fits a run's number of pipelines, model and lines.
//
// Loss and bits of the methods: docs/quality ("2 pipelines"). Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_REPLICA_ADVICE_H_
#define SHOAL_COMPRESSION_REPLICA_ADVICE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace shoal::compression {

struct ReplicaOffer {
  std::string method;  // as in a run file
  double bits = 32;    // a value, of each of the two ways
  double seconds = 0;  // of one exchange, if lines are all that limits it
};

// An exchange that takes longer than this is worth a method that may cost loss.
inline constexpr double kExchangeSecondsGood = 3;

// The methods that are offered, from the least loss to the fewest bytes. `values`: of the largest
// stage; `bits_per_second`: of a member's line, each way, above 0. One pipeline: none.
std::vector<ReplicaOffer> ReplicaOffers(std::uint32_t pipelines, std::uint64_t values,
                                        double bits_per_second);
// The first that is quick enough, else the last one; `offers` are some.
const ReplicaOffer& SuggestReplica(const std::vector<ReplicaOffer>& offers);

// "replica exchange of 124 M values ... per step at 100 Mbit/s: average 39.8 s, ...; `--replica
// qadam:bits=4` ..." on lines of its own; "" with one pipeline.
std::string DescribeReplicaOffers(const std::vector<ReplicaOffer>& offers, std::uint64_t values,
                                  const std::string& rate);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_REPLICA_ADVICE_H_
