// UnitPrefetcher: gathers the units of parameters that the parts of a stage's operations need, one
// part ahead, and releases them again. It sends the weight gradients of each part to their owners.
//
// So a stage holds the weights of the units of two parts at most, and the gradients of one part.
// Thread: control.

#ifndef SHOAL_REPLICA_UNITS_UNIT_PREFETCHER_H_
#define SHOAL_REPLICA_UNITS_UNIT_PREFETCHER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/task_scope.h"
#include "model/stage_model.h"
#include "replica/collective/units/unit_exchange.h"
#include "replica/member.h"
#include "replica/operation_gate.h"
#include "replica/units/unit_shards.h"

namespace shoal::replica {

class UnitPrefetcher final : public OperationGate {
 public:
  // `member` outlives it; an error ends the generation by its `fail`.
  UnitPrefetcher(Member* member, UnitFacts facts);

  // The pieces of a group, whose exchange outlives the gate's use. Before Open.
  void AddGroup(collective::UnitExchange* exchange, const std::vector<UnitPiece>& pieces);
  // The exchanges can be used: what has waited for it goes on.
  void Open();
  // Weights have changed: everything is released. While no operation runs.
  void Reset();
  // Some exchange can take gradients again.
  void OnRoom() {
    SHOAL_ASSERT_ON(*member_->control);
    MaybeGo();
  }

  void Before(model::Pass pass, std::uint32_t micro_batch, std::function<void()> go) override;
  void Stopped() override;
  bool waiting() const {
    SHOAL_ASSERT_ON(*member_->control);
    return go_ != nullptr;
  }

 private:
  enum class State : std::uint8_t { kAbsent, kFetching, kPresent };
  struct Piece {
    collective::UnitExchange* exchange = nullptr;
    std::size_t number = 0;  // in the exchange
    std::shared_ptr<const ParameterGroup> part;
  };
  struct Unit {
    State state = State::kAbsent;
    std::vector<Piece> pieces;
    std::vector<std::shared_ptr<Buffer>> fetched;  // by piece; null: on its way
  };
  struct PassPart {
    model::Pass pass;
    std::uint32_t micro_batch;
    std::size_t part;
  };

  const std::vector<model::UnitUse>& UsesOf(model::Pass pass) const {
    return facts_.uses[static_cast<std::size_t>(pass)];
  }
  std::uint64_t BytesOf(model::StateVector which, std::size_t unit) const;
  void Held(model::StateVector which, std::size_t unit);
  void Release(model::StateVector which, std::size_t unit);
  bool Wanted(std::size_t unit) const;
  void Prepare();
  void Fetch(std::size_t unit);
  void Fetched(std::size_t unit);
  void HoldGradients(std::size_t unit);
  void TakeGradients(const PassPart& of, std::size_t unit);
  void MaybeGo();

  Member* const member_;
  const UnitFacts facts_;
  std::vector<collective::UnitExchange*> exchanges_;
  std::vector<Unit> units_;
  bool open_ = false;
  std::map<std::pair<model::Pass, std::uint32_t>, std::size_t> parts_done_;  // if not all
  std::optional<PassPart> current_;  // of the part that waits or runs
  std::function<void()> go_;         // it waits
  std::vector<std::size_t> needed_, ahead_;
  TaskScope scope_;  // last: its tasks use what is above
};

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_UNITS_UNIT_PREFETCHER_H_
