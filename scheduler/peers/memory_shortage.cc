#include "scheduler/peers/memory_shortage.h"

#include <algorithm>
#include <cstddef>

#include "common/units.h"

namespace shoal::scheduler {
namespace {

constexpr std::size_t kNamed = 4;

bool HasAsMuch(const PeerMemory& peer, std::uint64_t bytes) {
  return peer.bytes == 0 || peer.bytes >= bytes;
}

// ": anna (1f00a2b3) has 2.00 GiB, ...".
std::string Names(const std::vector<PeerMemory>& peers) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, peers.size()); ++i) {
    text += (i > 0 ? ", " : ": ") + peers[i].label + " has " + FormatBytes(peers[i].bytes);
  }
  if (peers.size() <= kNamed) return text;
  return text + " and " + std::to_string(peers.size() - kNamed) + " more";
}

// Whether a part is worth to be made smaller.
bool Counts(std::uint64_t part, std::uint64_t bytes) { return part >= bytes / 4; }

// `memory`: what the stages should fit in.
std::string Advice(const RunConfig& config, std::size_t stage, std::uint64_t memory) {
  std::string size = FormatBytes(memory);
  std::erase(size, ' ');
  std::string text = "wait for a peer with more, or change run.toml: more stages or other cuts (" +
                     ("shoal-scheduler --config run.toml --print-size --memory " + size) +
                     " says which fit)";
  const std::uint64_t bytes = config.stage_bytes[stage];
  const std::uint64_t micro_batch =
      stage < config.micro_batch_bytes.size() ? config.micro_batch_bytes[stage] : 0;
  const bool state = Counts(bytes - micro_batch, bytes);
  if (state && config.adapter_kind == "none") {
    text += ", [adapter] kind = \"lora\"";
  } else if (state && config.base != "nf4") {
    text += ", [model] base = \"nf4\"";
  }
  if (state && config.pipelines > 1 && !config.replica_method.starts_with("qsdp")) {
    text += ", [replica] method = \"qsdp\"";
  }
  if (!Counts(micro_batch, bytes)) return text;
  if (!config.recompute) text += ", recompute = true";
  if (config.micro_batch_rows > 1) text += ", fewer micro_batch_rows";
  return text + ", data with a shorter --row";
}

}  // namespace

std::string MemoryShortageText(const RunConfig& config, std::vector<PeerMemory> peers) {
  std::vector<std::size_t> stages(config.stage_bytes.size());
  for (std::size_t stage = 0; stage < stages.size(); ++stage) stages[stage] = stage;
  std::ranges::stable_sort(stages, [&](std::size_t a, std::size_t b) {
    return config.stage_bytes[a] > config.stage_bytes[b];
  });
  std::size_t needed = 0;  // peers that must have as much
  for (const std::size_t stage : stages) {
    needed += config.pipelines;
    const std::uint64_t bytes = config.stage_bytes[stage];
    const auto enough = [&](const PeerMemory& peer) { return HasAsMuch(peer, bytes); };
    const auto here = static_cast<std::size_t>(std::ranges::count_if(peers, enough));
    if (here >= needed) continue;
    std::erase_if(peers, enough);
    if (peers.empty()) return "";  // it is peers that are missing
    std::ranges::stable_sort(
        peers, [](const PeerMemory& a, const PeerMemory& b) { return a.bytes > b.bytes; });
    const bool known = stage < config.micro_batch_bytes.size();
    return "too little memory: stage " + std::to_string(stage) + " needs " + FormatBytes(bytes) +
           (known
                ? ", " + FormatBytes(config.micro_batch_bytes[stage]) + " of it for one micro-batch"
                : "") +
           "; " + std::to_string(here) + " of " + std::to_string(needed) +
           " peers with as much are here" + Names(peers) + "; " +
           Advice(config, stage, peers[std::min(peers.size(), needed - here) - 1].bytes);
  }
  return "";
}

}  // namespace shoal::scheduler
