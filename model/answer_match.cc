#include "model/answer_match.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace shoal::model {
namespace {

constexpr std::string_view kSpaces = " \t\r\n\v\f";
constexpr std::string_view kRest = "...";
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
// Less than this of each text says nothing, whatever the width.
constexpr std::size_t kCharactersMin = 8;

bool ContinuesCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

std::string WithoutControls(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\r') {
      line += "\\r";
    } else if (c == '\t') {
      line += "\\t";
    } else {
      line += byte < 0x20 || byte == 0x7F ? '?' : c;
    }
  }
  return line;
}

std::size_t CountCharacters(std::string_view text) {
  return text.size() -
         static_cast<std::size_t>(std::count_if(text.begin(), text.end(), ContinuesCharacter));
}

}  // namespace

std::string_view TrimSpaces(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

TakenAnswer TakeAnswer(std::string_view written, std::string_view wanted) {
  const std::size_t begin = written.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  written.remove_prefix(begin);
  const std::string_view trimmed = TrimSpaces(wanted);
  auto lines = std::count(trimmed.begin(), trimmed.end(), '\n') + 1;
  for (std::size_t end = written.find('\n'); end != std::string_view::npos;
       end = written.find('\n', end + 1)) {
    if (--lines == 0) return {TrimSpaces(written.substr(0, end)), true};
  }
  return {TrimSpaces(written), false};
}

std::string OneLine(std::string_view text, std::size_t characters, bool keep_end) {
  std::string line = WithoutControls(text);
  const std::size_t count = CountCharacters(line);
  if (count <= characters) return line;
  const std::size_t kept = characters - std::min(characters, kRest.size());
  // The byte at which character `first` begins.
  const std::size_t first = keep_end ? count - kept : kept;
  std::size_t byte = 0;
  for (std::size_t seen = 0; byte < line.size(); ++byte) {
    if (ContinuesCharacter(line[byte])) continue;
    if (seen++ == first) break;
  }
  const std::string rest(kRest.substr(0, characters));
  return keep_end ? rest + line.substr(byte) : line.substr(0, byte) + rest;
}

std::string Describe(const WrongAnswer& wrong, std::size_t width) {
  const std::string begin = "line " + std::to_string(wrong.line) + ": ";
  constexpr std::string_view kWanted = " | wanted ", kGot = " | got ";
  std::size_t prompt = kAll, wanted = kAll, got = kAll;
  if (width > 0) {
    const std::size_t fixed = begin.size() + kWanted.size() + kGot.size();
    const std::size_t room = std::max(width, fixed + 3 * kCharactersMin) - fixed;
    // What is shorter than its share leaves the rest to the others.
    wanted = std::min(room / 3, CountCharacters(OneLine(wrong.wanted, kAll)));
    got = std::min((room - wanted) / 2, CountCharacters(OneLine(wrong.got, kAll)));
    prompt = room - wanted - got;
  }
  // Prompts of one file often begin alike.
  return begin + OneLine(wrong.prompt, prompt, true) + std::string(kWanted) +
         OneLine(wrong.wanted, wanted) + std::string(kGot) + OneLine(wrong.got, got);
}

}  // namespace shoal::model
