// ErrorKeeper: what the replica steps of a stage have not sent yet, from one generation to the
// next, in a process that keeps the stage. It is each member's own, so members need not have any;
// but for local steps, whose members go on with what they had in common, or not at all. What is in
// it belongs to weights after so many steps. Thread: control.

#ifndef SHOAL_REPLICA_STATE_ERROR_KEEPER_H_
#define SHOAL_REPLICA_STATE_ERROR_KEEPER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/memory/buffer.h"
#include "replica/collective/exchange.h"

namespace shoal::replica {

struct ParameterGroup;

// Names a vector of a stage, `kind` what its values are.
std::string VectorName(std::string_view kind, const ParameterGroup& part);

struct KeptVector {
  collective::KeptErrors errors = {};
  // Of marsit, in the units of its scales, a member of so many; null: none.
  std::shared_ptr<Buffer> momentum = nullptr;
  std::shared_ptr<const Buffer> compensation = nullptr;
  std::shared_ptr<const std::vector<float>> scales = nullptr;
  std::size_t members = 0;
  // Of local steps: the parameters that the members of a group had in common last, and the momentum
  // of their steps; null: there are none yet, and zeros. `members` then is for the errors.
  std::shared_ptr<const Buffer> common = nullptr, common_momentum = nullptr;
};

class ErrorKeeper {
 public:
  // The stage holds so many applied steps. What was kept after others is gone.
  void At(std::uint64_t steps);
  // Whether something was ever kept, since the stage was loaded.
  bool used() const { return used_; }
  // What was kept of a vector, once; nothing where nothing was.
  KeptVector Take(const std::string& vector);
  void Keep(const std::string& vector, KeptVector kept);
  // What nobody has taken is of no use any more.
  void DropRest() { kept_.clear(); }

 private:
  bool used_ = false;
  std::uint64_t steps_ = 0;
  std::map<std::string, KeptVector> kept_;
};

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_STATE_ERROR_KEEPER_H_
