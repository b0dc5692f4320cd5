#include "scheduler/history/lost_artefacts.h"

#include <cstddef>

namespace shoal::scheduler {

void LostArtefacts::Add(const ArtefactMap& by_hash) {
  lost_.insert(by_hash.begin(), by_hash.end());
  offered_.clear();
}

bool LostArtefacts::Found(const std::string& hash) {
  return lost_.erase(hash) > 0 && lost_.empty();
}

void LostArtefacts::KeepOnly(const ArtefactMap& needed_by_hash) {
  std::erase_if(lost_, [&](const auto& entry) { return !needed_by_hash.contains(entry.first); });
}

std::string LostArtefacts::Describe() const {
  constexpr std::size_t kNamed = 4;
  std::string text = std::to_string(lost_.size()) +
                     (lost_.size() == 1 ? " artefact is" : " artefacts are") +
                     " damaged or gone at the scheduler (";
  std::size_t named = 0;
  for (const auto& [hash, file] : lost_) {
    if (++named <= kNamed) text += (named == 1 ? "" : ", ") + file.name();
  }
  return text + (lost_.size() > kNamed ? ", ...)" : ")");
}

}  // namespace shoal::scheduler
