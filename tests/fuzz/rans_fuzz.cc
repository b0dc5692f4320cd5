// rANS words, states and tables from foreign hands. Input: a byte for the lanes, two for the number
// of symbols, a table in bits, then words and states.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "compression/entropy/bit_stream.h"
#include "compression/entropy/rans.h"
#include "compression/entropy/rans_table.h"

using namespace shoal::compression;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const std::size_t n = data[1] + 256U * (data[2] % 16U);
  const auto all = std::as_bytes(std::span(data, size)).subspan(3);
  BitReader reader(all);
  std::vector<std::uint8_t> levels(2 + data[0] / 2);
  if (!ReadLevels(&reader, levels)) return 0;
  if (std::count(levels.begin(), levels.end(), kLevelAbsent) + 2 >
      static_cast<std::ptrdiff_t>(levels.size())) {
    return 0;
  }
  std::vector<std::uint16_t> frequencies(levels.size());
  FrequenciesOf(levels, kRansTotal, frequencies);
  std::vector<std::uint32_t> slots(4 * kRansTotal);
  for (std::size_t t = 0; t < 4; ++t) FillRansSlots(frequencies, slots.data() + t * kRansTotal);

  const std::vector<std::byte> words(all.begin() + static_cast<std::ptrdiff_t>(reader.bytes_used()),
                                     all.end());
  RansLanes lanes(data[0] % 2 == 0 ? 1 : kRansLanes);
  if (words.size() < lanes.bytes()) return 0;
  const std::byte* states = words.data() + (words.size() - lanes.bytes());
  if (!lanes.Load(states)) return 0;
  std::vector<std::uint16_t> contexts(n);
  for (std::size_t i = 0; i < n; ++i) contexts[i] = static_cast<std::uint16_t>(i * 40503U);
  std::vector<std::uint8_t> symbols(n);
  const RansLanes before = lanes;
  const std::byte* end = RansDecode(slots.data(), nullptr, contexts.data(), n, &lanes, words.data(),
                                    states, symbols.data());
  if (end == nullptr) return 0;
  // The coder is a bijection: encoding what was decoded gives the words and states back.
  RansEncodeTable table;
  table.Set(frequencies, 0);
  std::vector<std::byte> again(2 * n + kRansSlack);
  std::byte* const to = RansEncode(&table, nullptr, symbols.data(), n, &lanes, again.data());
  if (!std::ranges::equal(std::span(end, states), std::span(again.data(), to))) abort();
  if (lanes.states != before.states) abort();
  return 0;
}
