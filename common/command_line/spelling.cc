#include "common/command_line/spelling.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace shoal {
namespace {

// Letters to insert, delete, change or swap with the next one until `a` is `b`.
std::size_t Typos(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before = last;
    last = row;
  }
  return last.back();
}

// A third of the letters may be wrong: of two, none.
constexpr std::size_t kLettersPerTypo = 3;
constexpr std::size_t kWordMax = 64;
// Fewer letters say too little of a longer word.
constexpr std::size_t kPrefixMin = 3;

}  // namespace

std::string Nearest(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > kWordMax) return "";
  std::string nearest;
  std::size_t least = word.size() / kLettersPerTypo + 1;
  for (const std::string& candidate : known) {
    const std::size_t typos = Typos(word, candidate);
    if (typos < least) {
      least = typos;
      nearest = candidate;
    }
  }
  if (!nearest.empty() || word.size() < kPrefixMin) return nearest;
  const auto begins = [word](const std::string& candidate) { return candidate.starts_with(word); };
  const auto first = std::find_if(known.begin(), known.end(), begins);
  return std::count_if(known.begin(), known.end(), begins) == 1 ? *first : "";
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& known) {
  const std::string nearest = Nearest(word, known);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

}  // namespace shoal
