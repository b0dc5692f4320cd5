#include "dataset/tokenizers/charsmap.h"

#include <span>
#include <utility>

#include "common/bytes.h"
#include "dataset/tokenizers/unicode.h"

namespace shoal::dataset {
namespace {

constexpr std::size_t kWholeGraphemeBytes = 5;

// A unit: label in the low 8 bits (bit 31 set where it is a value), bit 8: a value follows, the
// rest an offset, of which bit 9 says whether it counts 256.
bool HasValue(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t ValueOf(std::uint32_t unit) { return unit & 0x7fffffffU; }
std::uint32_t LabelOf(std::uint32_t unit) { return unit & 0x800000ffU; }
std::uint32_t OffsetOf(std::uint32_t unit) { return unit >> 10 << ((unit & 1U << 9) >> 6); }

}  // namespace

Result<Charsmap> Charsmap::Parse(std::string_view bytes) {
  const auto damaged = [] { return InvalidArgument("precompiled_charsmap is damaged"); };
  const auto all = std::as_bytes(std::span(bytes));
  if (all.size() < sizeof(std::uint32_t)) return damaged();
  const std::size_t size = LoadLittle<std::uint32_t>(all.data());
  const auto behind = all.subspan(sizeof(std::uint32_t));
  if (size == 0 || size % sizeof(std::uint32_t) != 0 || size >= behind.size()) return damaged();
  Charsmap map;
  for (std::size_t i = 0; i < size; i += sizeof(std::uint32_t)) {
    map.units_.push_back(LoadLittle<std::uint32_t>(behind.data() + i));
  }
  map.replacements_ = bytes.substr(sizeof(std::uint32_t) + size);
  if (map.replacements_.back() != '\0') return damaged();
  return map;
}

template <typename Found>
void Charsmap::Walk(std::string_view text, Found found) const {
  std::size_t at = OffsetOf(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    at ^= byte;
    if (byte == 0 || at >= units_.size()) return;
    const std::uint32_t unit = units_[at];
    if (LabelOf(unit) != byte) return;
    at ^= OffsetOf(unit);
    if (!HasValue(unit)) continue;
    if (at >= units_.size()) return;
    const std::size_t place = ValueOf(units_[at]);
    if (place >= replacements_.size()) return;
    if (!found(std::string_view(replacements_.data() + place), i + 1)) return;  // to its zero
  }
}

std::optional<std::string_view> Charsmap::Find(std::string_view text) const {
  std::optional<std::string_view> shortest;
  Walk(text, [&](std::string_view replacement, std::size_t) {
    shortest = replacement;
    return false;
  });
  return shortest;
}

std::pair<std::string_view, std::size_t> Charsmap::Longest(std::string_view text) const {
  std::pair<std::string_view, std::size_t> longest;
  Walk(text, [&](std::string_view replacement, std::size_t bytes) {
    longest = {replacement, bytes};
    return true;
  });
  return longest;
}

std::string Charsmap::Replace(std::string_view text) const {
  std::string made;
  made.reserve(text.size());
  for (const std::string_view grapheme : Graphemes(text)) {
    if (grapheme.size() <= kWholeGraphemeBytes) {
      if (const auto found = Find(grapheme)) {
        made += *found;
        continue;
      }
    }
    for (std::size_t at = 0; at < grapheme.size();) {
      const std::string_view character =
          grapheme.substr(at, FirstCharacter(grapheme.substr(at)).bytes);
      made += Find(character).value_or(character);
      at += character.size();
    }
  }
  return made;
}

}  // namespace shoal::dataset
