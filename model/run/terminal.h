// How shoal-run talks to a person: lines in, text out, Ctrl-C. Thread: main.

#ifndef SHOAL_MODEL_RUN_TERMINAL_H_
#define SHOAL_MODEL_RUN_TERMINAL_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal::model {

bool IsTerminal(int descriptor);
// Characters in a line of the terminal that standard output is; 0 where it is none.
std::size_t TerminalWidth();

// Part of a text that a model wrote, to standard output at once. On a terminal control characters
// but line ends and tabs, with them the beginning of escape codes, become '?'.
void WritePiece(std::string_view piece);

// Lines of standard input.
class LineReader {
 public:
  static constexpr std::size_t kLineBytesMax = std::size_t{1} << 20;

  enum class Read {
    kLine,
    kEnd,
    kInterrupted,  // by Ctrl-C (Interrupts); what was read of the line is forgotten
  };
  // Sets *line, without its end. A line beyond the limit is an error.
  Result<Read> Next(std::string* line);

 private:
  std::string bytes_;  // read and not yet given
  bool end_ = false;
};

// While it lives, Ctrl-C does not end the process: it is noted, and ends a wait for a line. One at
// a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Whether Ctrl-C came since the last call.
  static bool Take();
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_RUN_TERMINAL_H_
