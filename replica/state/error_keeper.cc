#include "replica/state/error_keeper.h"

#include <utility>

#include "replica/replica_step.h"

namespace shoal::replica {

std::string VectorName(std::string_view kind, const ParameterGroup& part) {
  std::string name(kind);
  for (const ParameterGroup::Range& range : part.ranges) {
    name += " " + std::to_string(range.first) + "+" + std::to_string(range.values);
  }
  return name;
}

void ErrorKeeper::At(std::uint64_t steps) {
  if (steps != steps_) kept_.clear();
  steps_ = steps;
}

KeptVector ErrorKeeper::Take(const std::string& vector) {
  auto found = kept_.extract(vector);
  return found ? std::move(found.mapped()) : KeptVector();
}

void ErrorKeeper::Keep(const std::string& vector, KeptVector kept) {
  used_ = true;
  kept_[vector] = std::move(kept);
}

}  // namespace shoal::replica
