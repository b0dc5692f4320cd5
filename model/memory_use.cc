#include "model/memory_use.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "common/units.h"

namespace shoal::model {
namespace {

constexpr double kBytesMax = 1e18;  // no machine has as many

struct Item {
  std::string name;
  std::uint64_t bytes = 0;
  std::string remedy;
};

std::vector<Item> ItemsOf(const MemoryUse& use, std::uint64_t asked_bytes) {
  if (!use.trains) {
    return {{"the weights", use.state_bytes + use.base_bytes, "a smaller model or a larger device"},
            {"what was asked for", asked_bytes, "shorter texts or fewer rows at a time"}};
  }
  const std::string stages = "more stages";
  const std::string smaller = "fewer micro_batch_rows, data with a shorter --row";
  const std::string again = use.recompute ? "" : "recompute = true, ";
  return {{"weights, gradients and moments", use.state_bytes,
           stages + (use.adapted ? ", a smaller [adapter] rank" : ", [adapter] kind = \"lora\"")},
          {"the base of the adapters", use.base_bytes, stages + ", [model] base = \"nf4\""},
          {std::to_string(use.micro_batches) + " kept micro-batch" +
               (use.micro_batches == 1 ? "" : "es") + " of " + FormatBytes(use.micro_batch_bytes),
           use.micro_batches * use.micro_batch_bytes,
           again + smaller + ", fewer in flight (limits.activations of shoald.toml), " + stages},
          {"what was asked for", asked_bytes, again + smaller + ", " + stages}};
}

}  // namespace

MemoryUse UseOf(const ModelSpec& spec, const StageOptions& options, std::uint64_t limit_bytes) {
  const StageRange& range = options.range;
  std::uint64_t bytes = options.compute == "bf16" ? 2 : 0;  // of a value
  switch (options.held) {
    case ZeroMode::kNone: bytes += 4 * sizeof(float); break;
    case ZeroMode::kZero1: bytes += 2 * sizeof(float); break;
    case ZeroMode::kZero3: bytes = 0; break;  // unit by unit
    case ZeroMode::kWeights: bytes += sizeof(float); break;
  }
  MemoryUse use;
  use.state_bytes =
      bytes * spec.TrainedParametersOf(range.first_layer, range.last_layer, range.first_layer == 0,
                                       range.last_layer == spec.layers());
  use.limit_bytes = limit_bytes;
  use.trains = options.held != ZeroMode::kWeights;
  use.adapted = spec.adapted;
  use.recompute = options.recompute;
  return use;
}

std::uint64_t AskedBytes(std::string_view what) {
  constexpr std::string_view kBefore = "ried to allocate ";
  const std::size_t at = what.find(kBefore);
  if (at == std::string_view::npos) return 0;
  const std::string_view rest = what.substr(at + kBefore.size());
  double value = 0;
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (parsed.ec != std::errc() || !(value >= 0)) return 0;
  const std::string_view unit = rest.substr(static_cast<std::size_t>(parsed.ptr - rest.data()));
  constexpr std::string_view kUnits[] = {" KiB", " MiB", " GiB"};
  double factor = 1;
  for (const std::string_view name : kUnits) {
    factor *= 1024;
    if (unit.starts_with(name)) value *= factor;
  }
  return value <= kBytesMax ? static_cast<std::uint64_t>(value) : 0;
}

std::string OutOfMemoryText(const MemoryUse& use, std::uint64_t asked_bytes) {
  std::string text = "out of memory";
  if (asked_bytes > 0) text += ", " + FormatBytes(asked_bytes) + " asked for";
  if (use.limit_bytes > 0) text += ", limit " + FormatBytes(use.limit_bytes);
  const std::vector<Item> items = ItemsOf(use, asked_bytes);
  const Item& largest = *std::ranges::max_element(items, {}, &Item::bytes);
  if (largest.bytes > 0) {
    text += "; the largest item: " + largest.name + ", " + FormatBytes(largest.bytes);
  }
  text += "; take " + (largest.bytes > 0 ? largest : items.back()).remedy;
  if (use.trains && use.limit_bytes > 0) {
    text += ", or a larger limits.device_memory in shoald.toml";
  }
  return text;
}

}  // namespace shoal::model
