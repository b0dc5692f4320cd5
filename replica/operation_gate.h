// OperationGate: lets the parts of a stage's operations run when what they need is there.
// Thread: control.

#ifndef SHOAL_REPLICA_OPERATION_GATE_H_
#define SHOAL_REPLICA_OPERATION_GATE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "model/stage_model.h"

namespace shoal::replica {

// What a gate knows of a model; constant.
struct UnitFacts {
  std::vector<model::UnitLayout> units;                          // empty: all is held
  std::array<std::vector<model::UnitUse>, model::kPasses> uses;  // by pass and part
  bool bf16 = false;
};

class OperationGate {
 public:
  virtual ~OperationGate() = default;

  // The next part of an operation on a micro-batch wants to run: calls `go`, at once or later. The
  // part before it, of this operation, has run.
  virtual void Before(model::Pass pass, std::uint32_t micro_batch, std::function<void()> go) = 0;
  // The part that was let go last has run, and another operation may follow.
  virtual void Stopped() = 0;
};

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_OPERATION_GATE_H_
