// What of a generated text is the answer, and how a wrong one is shown. Pure; thread: any.

#ifndef SHOAL_MODEL_ANSWER_MATCH_H_
#define SHOAL_MODEL_ANSWER_MATCH_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace shoal::model {

// Without the white space of ASCII at both ends.
std::string_view TrimSpaces(std::string_view text);

struct TakenAnswer {
  std::string_view text;  // trimmed; part of what was written
  bool complete = false;  // whatever is written behind it does not belong to it
};

// The first lines of `written`, as many as `wanted` has; blank lines in front do not count.
TakenAnswer TakeAnswer(std::string_view written, std::string_view wanted);

// One line: line ends and tabs as \n, \r and \t, other control characters as '?'. Of UTF-8 with
// more than `characters` of them the beginning, or the end, and "..." for the rest.
std::string OneLine(std::string_view text, std::size_t characters, bool keep_end = false);

struct WrongAnswer {
  std::size_t line = 0;  // of the file
  std::string prompt, wanted, got;
};
// "line 3: PROMPT | wanted ... | got ..." in at most `width` characters, where that has room for
// some of each; 0: all of it.
std::string Describe(const WrongAnswer& wrong, std::size_t width);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_ANSWER_MATCH_H_
