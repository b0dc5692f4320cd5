#include "daemon/terms/own_network.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace shoal::daemon {
namespace {

constexpr std::size_t kToldMax = 16;  // a scheduler refuses more

}  // namespace

const std::vector<std::string>& OwnNetwork::Tell(const std::vector<std::string>& relays) {
  std::vector<std::string> own = advertised_;
  if (own.empty() && find_) own = find_().value_or(seen_);
  const std::size_t most = kToldMax - std::min(kToldMax, relays.size());
  if (own.size() > most) own.resize(most);
  own.insert(own.end(), relays.begin(), relays.end());
  told_ = std::move(own);
  return told_;
}

const std::vector<std::string>* OwnNetwork::TellNew(const std::vector<std::string>& relays) {
  const std::vector<std::string> before = told_;
  return Tell(relays) == before ? nullptr : &told_;
}

std::optional<OwnNetwork::Change> OwnNetwork::Look() {
  std::optional<std::vector<std::string>> found;
  if (find_) found = find_();
  if (!found || *found == seen_) return std::nullopt;
  const std::vector<std::string> before = std::exchange(seen_, *std::move(found));
  if (before.empty()) return std::nullopt;
  Change change;
  std::ranges::copy_if(before, std::back_inserter(change.lost), [this](const std::string& address) {
    return std::ranges::find(seen_, address) == seen_.end();
  });
  return change;
}

}  // namespace shoal::daemon
