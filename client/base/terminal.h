// How the CLI writes on a terminal: tables, colours, one-line progress.

#ifndef SHOAL_CLIENT_BASE_TERMINAL_H_
#define SHOAL_CLIENT_BASE_TERMINAL_H_

#include <string>
#include <string_view>
#include <vector>

namespace shoal::client {

// Whether colours and moving lines are wanted on standard output / error: a terminal, NO_COLOR not
// set.
bool FancyOutput();
bool FancyError();

std::string Bold(std::string_view text);  // plain when not FancyOutput()
std::string Green(std::string_view text);
std::string Yellow(std::string_view text);
std::string Red(std::string_view text);

// A text from elsewhere without what would steer the terminal: control characters become '?'.
std::string Printable(std::string_view text);

// Columns padded to their widest cell (colour codes do not count), two spaces between.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

// At most `cells` wide: colour codes take none and stay, the last letter that fits becomes '>'
// where something is cut off.
std::string Clipped(std::string_view text, std::size_t cells);

// Whether the locale's characters are those of UTF-8.
bool ShowsUtf8();
// A text of ASCII alone: curves of Sparkline are drawn in it, other characters become '?'.
std::string ToAscii(std::string_view text);

// "[#####.....]" of `width` cells.
std::string Bar(double fraction, int width);

// A small curve of block characters, newest right; empty for fewer than two values.
std::string Sparkline(const std::vector<double>& values, std::size_t width);

// Standard error: replaces the last progress line on a terminal; elsewhere a new line at most every
// few seconds.
class ProgressLine {
 public:
  ~ProgressLine() { Finish(); }
  void Show(const std::string& text);
  // Leaves the last line standing.
  void Finish();

 private:
  bool shown_ = false;
  double last_plain_s_ = -1e9;
};

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_BASE_TERMINAL_H_
