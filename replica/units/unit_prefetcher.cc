#include "replica/units/unit_prefetcher.h"

#include <algorithm>

namespace shoal::replica {

using model::Pass;
using model::StateVector;

namespace {

bool Has(const std::vector<std::size_t>& units, std::size_t unit) {
  return std::find(units.begin(), units.end(), unit) != units.end();
}

}  // namespace

UnitPrefetcher::UnitPrefetcher(Member* member, UnitFacts facts)
    : member_(member),
      facts_(std::move(facts)),
      units_(facts_.units.size()),
      scope_(member->control) {}

void UnitPrefetcher::AddGroup(collective::UnitExchange* exchange,
                              const std::vector<UnitPiece>& pieces) {
  SHOAL_ASSERT_ON(*member_->control);
  exchanges_.push_back(exchange);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    units_[pieces[i].unit].pieces.push_back({exchange, i, pieces[i].part});
  }
}

void UnitPrefetcher::Open() {
  SHOAL_ASSERT_ON(*member_->control);
  open_ = true;
  Prepare();
  MaybeGo();
}

void UnitPrefetcher::Reset() {
  SHOAL_ASSERT_ON(*member_->control);
  SHOAL_CHECK(!current_);
  needed_.clear();
  ahead_.clear();
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (units_[unit].state == State::kPresent) Release(StateVector::kWeights, unit);
  }
}

std::uint64_t UnitPrefetcher::BytesOf(StateVector which, std::size_t unit) const {
  const bool copy = which == StateVector::kWeights && facts_.bf16;
  return facts_.units[unit].values * (sizeof(float) + (copy ? 2 : 0));
}

void UnitPrefetcher::Held(StateVector which, std::size_t unit) {
  ReplicaStats& stats = member_->stats;
  stats.unit_bytes += BytesOf(which, unit);
  stats.unit_peak_bytes = std::max(stats.unit_peak_bytes, stats.unit_bytes);
}

void UnitPrefetcher::Release(StateVector which, std::size_t unit) {
  member_->stats.unit_bytes -= BytesOf(which, unit);
  if (which == StateVector::kWeights) units_[unit].state = State::kAbsent;
  scope_.Run(
      member_->compute, "unit.release",
      [model = member_->model, which, unit] {
        model->ReleaseUnit(which, unit);
        return true;
      },
      [](bool) {});
}

bool UnitPrefetcher::Wanted(std::size_t unit) const {
  return Has(needed_, unit) || Has(ahead_, unit);
}

// ---- parts ----

void UnitPrefetcher::Before(Pass pass, std::uint32_t micro_batch, std::function<void()> go) {
  SHOAL_ASSERT_ON(*member_->control);
  Stopped();  // the part before it
  std::size_t& done = parts_done_[{pass, micro_batch}];
  current_ = PassPart{pass, micro_batch, done++};
  const std::vector<model::UnitUse>& uses = UsesOf(pass);
  const std::size_t part = current_->part;
  SHOAL_CHECK(part < uses.size());
  const bool last = part + 1 == uses.size();
  if (last) parts_done_.erase({pass, micro_batch});
  needed_ = uses[part].weights;
  ahead_ = last ? std::vector<std::size_t>() : uses[part + 1].weights;
  go_ = std::move(go);
  Prepare();
  for (const std::size_t unit : uses[part].gradients) HoldGradients(unit);
  MaybeGo();
  if (go_) member_->computing(std::nullopt);
}

void UnitPrefetcher::Stopped() {
  SHOAL_ASSERT_ON(*member_->control);
  if (!current_) return;
  const PassPart of = *std::exchange(current_, std::nullopt);
  for (const std::size_t unit : UsesOf(of.pass)[of.part].gradients) {
    TakeGradients(of, unit);
  }
}

// Releases before it gathers. Where an operation ends, its last units stay: the next one may begin
// with them.
void UnitPrefetcher::Prepare() {
  if (!open_ || !current_) return;
  if (!needed_.empty()) {
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      if (units_[unit].state == State::kPresent && !Wanted(unit)) {
        Release(StateVector::kWeights, unit);
      }
    }
  }
  for (const auto* units : {&needed_, &ahead_}) {
    for (const std::size_t unit : *units) {
      if (units_[unit].state == State::kAbsent) Fetch(unit);
    }
  }
}

void UnitPrefetcher::MaybeGo() {
  if (!go_ || !open_) return;
  for (const std::size_t unit : needed_) {
    if (units_[unit].state != State::kPresent) return;
  }
  for (const collective::UnitExchange* exchange : exchanges_) {
    if (!exchange->CanPush()) return;
  }
  member_->progress();
  member_->computing(current_->pass);
  std::exchange(go_, nullptr)();
}

// ---- weights ----

void UnitPrefetcher::Fetch(std::size_t number) {
  Unit& unit = units_[number];
  unit.state = State::kFetching;
  unit.fetched.assign(unit.pieces.size(), nullptr);
  for (std::size_t i = 0; i < unit.pieces.size(); ++i) {
    const Piece& piece = unit.pieces[i];
    CountGathered(piece.exchange->layout(piece.number), piece.part->channel->rank(),
                  &member_->stats.replica);
    piece.exchange->Pull(collective::UnitVector::kWeights, piece.number,
                         [this, number, i](Buffer values) {
                           member_->progress();
                           units_[number].fetched[i] = std::make_shared<Buffer>(std::move(values));
                           Fetched(number);
                         });
  }
}

void UnitPrefetcher::Fetched(std::size_t number) {
  Unit& unit = units_[number];
  const auto missing = [](const auto& values) { return values == nullptr; };
  if (std::any_of(unit.fetched.begin(), unit.fetched.end(), missing)) return;
  const auto fetched = std::exchange(unit.fetched, {});
  if (!Wanted(number)) {  // another operation went first
    unit.state = State::kAbsent;
    return;
  }
  Held(StateVector::kWeights, number);
  auto fill = [model = member_->model, number, fetched, pieces = unit.pieces]() -> Status {
    SHOAL_RETURN_IF_ERROR(model->HoldUnit(StateVector::kWeights, number));
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      SHOAL_RETURN_IF_ERROR(
          WriteParameters(model, StateVector::kWeights, *pieces[i].part, fetched[i]->floats()));
    }
    return Status::Ok();
  };
  scope_.Run(member_->compute, "unit.fill", std::move(fill), [this, number](const Status& status) {
    if (!status.ok()) return member_->fail(status, nullptr);
    units_[number].state = State::kPresent;
    if (!Wanted(number)) Release(StateVector::kWeights, number);
    MaybeGo();
  });
}

// ---- gradients ----

void UnitPrefetcher::HoldGradients(std::size_t unit) {
  Held(StateVector::kGradients, unit);
  auto hold = [model = member_->model, unit] {
    return model->HoldUnit(StateVector::kGradients, unit);
  };
  scope_.Run(member_->compute, "unit.hold", std::move(hold), [this](const Status& status) {
    if (!status.ok()) member_->fail(status, nullptr);
  });
}

// Before anything that is posted to compute later.
void UnitPrefetcher::TakeGradients(const PassPart& of, std::size_t number) {
  using Taken = Result<std::vector<std::shared_ptr<const Buffer>>>;
  auto take = [model = member_->model, pieces = units_[number].pieces,
               mark = member_->mark]() -> Taken {
    std::vector<std::shared_ptr<const Buffer>> taken;
    for (const Piece& piece : pieces) {
      Buffer values(piece.part->values * sizeof(float));
      SHOAL_RETURN_IF_ERROR(
          ReadGradients(model, *piece.part, values.floats(), mark.get(), kAddendMost / 2));
      taken.push_back(std::make_shared<const Buffer>(std::move(values)));
    }
    return taken;
  };
  scope_.Run(member_->compute, "gradients.take", std::move(take),
             [this, of, number](const Taken& taken) {
               if (!taken.ok()) return member_->fail(taken.status(), nullptr);
               for (std::size_t i = 0; i < taken->size(); ++i) {
                 const Piece& piece = units_[number].pieces[i];
                 CountScattered(piece.exchange->layout(piece.number), piece.part->channel->rank(),
                                &member_->stats.replica);
                 piece.exchange->Push(of.micro_batch, static_cast<std::uint32_t>(of.part),
                                      piece.number, (*taken)[i]);
               }
             });
  Release(StateVector::kGradients, number);
}

}  // namespace shoal::replica
