#include "scheduler/plan/dealing.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <tuple>

#include "common/checksum.h"
#include "common/status.h"

namespace shoal::scheduler {
namespace {

// Of no pipeline yet.
constexpr std::uint32_t kNoTurn = UINT32_MAX;

// Rendezvous hashing: a micro-batch prefers the home with the largest value.
std::uint64_t Preference(std::uint32_t micro_batch, std::uint32_t home) {
  std::array<std::byte, 8> key{};
  for (std::size_t i = 0; i < 4; ++i) {
    key[i] = static_cast<std::byte>(micro_batch >> (8 * i));
    key[4 + i] = static_cast<std::byte>(home >> (8 * i));
  }
  return Checksum64(key);
}

// What is of nobody in `left` goes to those there. Of a step that is being trained, where others
// may be done with their part, each gets as few more as can be.
void DealByHome(const Homes& homes, const Pipelines& left, std::uint32_t turn,
                std::vector<Dealt>* dealt) {
  std::map<std::uint32_t, std::size_t> load;
  for (const std::uint32_t pipeline : left) load[pipeline] = 0;
  std::vector<std::uint32_t> moved;
  for (std::uint32_t i = 0; i < dealt->size(); ++i) {
    const auto has = load.find((*dealt)[i].pipeline);
    if ((*dealt)[i].turn == kNoTurn || has == load.end()) {
      moved.push_back(i);
    } else {
      ++has->second;
    }
  }
  const std::size_t share = (dealt->size() + left.size() - 1) / left.size();
  std::map<std::uint32_t, std::size_t> more;
  for (const std::uint32_t i : moved) {
    using Choice = std::tuple<std::size_t, std::size_t, std::uint64_t, std::uint32_t>;
    std::optional<Choice> best;  // the least
    for (const std::uint32_t pipeline : left) {
      const std::uint64_t dislike = ~Preference(i, homes.of[pipeline]);
      if (turn > 0) {
        const Choice choice(more[pipeline], load[pipeline], dislike, pipeline);
        if (!best || choice < *best) best = choice;
      } else if (load[pipeline] < share) {
        const Choice choice(0, 0, dislike, pipeline);
        if (!best || choice < *best) best = choice;
      }
    }
    SHOAL_CHECK(best.has_value());
    const std::uint32_t to = std::get<3>(*best);
    ++load[to];
    ++more[to];
    (*dealt)[i] = {to, turn};
  }
}

void DealInOrder(const Pipelines& left, std::uint32_t turn, std::vector<Dealt>* dealt) {
  std::size_t moved = 0;
  for (Dealt& one : *dealt) {
    if (one.turn != kNoTurn && std::ranges::binary_search(left, one.pipeline)) continue;
    one = {left[moved++ % left.size()], turn};
  }
}

}  // namespace

Homes HomesOf(const std::map<PeerId, std::uint32_t>& last, const std::vector<PeerId>& hosts,
              std::uint32_t stages, std::uint32_t count) {
  SHOAL_CHECK(stages > 0 && hosts.size() <= std::size_t{count} * stages);
  struct Wish {
    std::uint32_t peers = 0, pipeline = 0, home = 0;
  };
  std::vector<Wish> wishes;
  const std::size_t pipelines = hosts.size() / stages;
  for (std::uint32_t p = 0; p < pipelines; ++p) {
    std::map<std::uint32_t, std::uint32_t> peers;  // by home
    for (std::uint32_t s = 0; s < stages; ++s) {
      const auto was = last.find(hosts[std::size_t{p} * stages + s]);
      if (was != last.end() && was->second < count) ++peers[was->second];
    }
    for (const auto& [home, number] : peers) wishes.push_back({number, p, home});
  }
  std::ranges::stable_sort(wishes, [](const Wish& a, const Wish& b) { return a.peers > b.peers; });
  constexpr std::uint32_t kNone = UINT32_MAX;
  Homes homes{count, std::vector<std::uint32_t>(pipelines, kNone)};
  std::vector<bool> taken(count);
  for (const Wish& wish : wishes) {
    if (homes.of[wish.pipeline] != kNone || taken[wish.home]) continue;
    homes.of[wish.pipeline] = wish.home;
    taken[wish.home] = true;
  }
  for (std::uint32_t& home : homes.of) {
    if (home != kNone) continue;
    home = static_cast<std::uint32_t>(std::ranges::find(taken, false) - taken.begin());
    taken[home] = true;
  }
  return homes;
}

std::vector<Dealt> Deal(const Dealing& dealing, std::uint32_t micro_batches) {
  SHOAL_CHECK(!dealing.turns.empty());
  const Homes& homes = dealing.homes;
  std::vector<Dealt> dealt(micro_batches, Dealt{0, kNoTurn});
  if (homes.count > 0) {
    std::map<std::uint32_t, std::uint32_t> at;  // pipelines that count, by home
    for (const std::uint32_t pipeline : dealing.turns.front()) at[homes.of[pipeline]] = pipeline;
    for (std::uint32_t i = 0; i < micro_batches; ++i) {
      if (const auto found = at.find(i % homes.count); found != at.end()) {
        dealt[i] = {found->second, 0};
      }
    }
  }
  for (std::uint32_t turn = 0; turn < dealing.turns.size(); ++turn) {
    const Pipelines& left = dealing.turns[turn];
    SHOAL_CHECK(!left.empty());
    homes.count > 0 ? DealByHome(homes, left, turn, &dealt) : DealInOrder(left, turn, &dealt);
  }
  return dealt;
}

std::uint32_t MicroBatchesOf(const Dealing& dealing, std::uint32_t micro_batches,
                             std::uint32_t pipeline) {
  const std::vector<Dealt> dealt = Deal(dealing, micro_batches);
  return static_cast<std::uint32_t>(std::ranges::count(dealt, pipeline, &Dealt::pipeline));
}

}  // namespace shoal::scheduler
