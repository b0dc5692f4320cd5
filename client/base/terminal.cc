#include "client/base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "common/clock.h"

namespace shoal::client {
namespace {

constexpr double kPlainInterval_s = 5;

bool ColoursWanted() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return (no_color == nullptr || *no_color == '\0') && term != nullptr &&
         std::string_view(term) != "dumb";
}

std::string Wrapped(const char* code, std::string_view text) {
  if (!FancyOutput()) return std::string(text);
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

// Cells on a terminal: colour codes take none, each UTF-8 character one.
std::size_t Width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (i < text.size() && text[i] != 'm') ++i;
      continue;
    }
    width += (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
  }
  return width;
}

// The beginning of a text without colour codes, at most `cells` wide, never half a character.
std::string_view FirstCells(std::string_view text, std::size_t cells) {
  std::size_t end = 0;
  for (; end < text.size(); ++end) {
    if ((static_cast<unsigned char>(text[end]) & 0xc0) != 0x80 && cells-- == 0) break;
  }
  return text.substr(0, end);
}

std::size_t TerminalWidth() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 100;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // C0, DEL, and C1 in UTF-8 (C2 80 to C2 9F).
    const bool c1 =
        byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (c1) ++i;
    result += byte < ' ' || byte == 0x7f || c1 ? '?' : text[i];
  }
  return result;
}

bool FancyOutput() {
  static const bool fancy = ::isatty(STDOUT_FILENO) == 1 && ColoursWanted();
  return fancy;
}

bool FancyError() {
  static const bool fancy = ::isatty(STDERR_FILENO) == 1 && ColoursWanted();
  return fancy;
}

std::string Bold(std::string_view text) { return Wrapped("1", text); }
std::string Green(std::string_view text) { return Wrapped("32", text); }
std::string Yellow(std::string_view text) { return Wrapped("33", text); }
std::string Red(std::string_view text) { return Wrapped("31", text); }

std::string FormatTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] - Width(row[i]) + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

std::string Clipped(std::string_view text, std::size_t cells) {
  if (Width(text) <= cells) return std::string(text);
  std::string result;
  std::size_t used = 0;
  bool coloured = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      const std::size_t end = std::min(text.find('m', i), text.size() - 1);
      result += text.substr(i, end - i + 1);
      coloured = true;
      i = end;
      continue;
    }
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80 && ++used >= cells) break;
    result += text[i];
  }
  if (cells > 0) result += '>';
  return result + (coloured ? "\x1b[0m" : "");
}

bool ShowsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale(value);
    return locale.ends_with("UTF-8") || locale.ends_with("utf8") || locale.ends_with("utf-8");
  }
  return false;
}

std::string ToAscii(std::string_view text) {
  static constexpr std::string_view kCurve = "__--==##";
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) {
      result += text[i];
    } else if ((byte & 0xc0) != 0x80) {
      // Blocks of a curve are e2 96 81 to e2 96 88.
      const bool block = text.substr(i, 2) == "\xe2\x96" && i + 2 < text.size();
      const auto height = block ? static_cast<unsigned char>(text[i + 2]) - 0x81u : 8u;
      result += height < kCurve.size() ? kCurve[height] : '?';
    }
  }
  return result;
}

std::string Bar(double fraction, int width) {
  const int full = static_cast<int>(std::lround(std::clamp(fraction, 0.0, 1.0) * width));
  return "[" + std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(width - full), '.') + "]";
}

std::string Sparkline(const std::vector<double>& values, std::size_t width) {
  if (values.size() < 2 || width == 0) return "";
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<double> means;
  const std::size_t cells = std::min(width, values.size());
  for (std::size_t cell = 0; cell < cells; ++cell) {
    const std::size_t begin = cell * values.size() / cells;
    const std::size_t end = (cell + 1) * values.size() / cells;
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += values[i];
    means.push_back(sum / static_cast<double>(end - begin));
  }
  std::erase_if(means, [](double mean) { return !std::isfinite(mean); });
  if (means.size() < 2) return "";
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  const double range = *high > *low ? *high - *low : 1;
  std::string text;
  for (double mean : means) {
    text += kBlocks[std::clamp(static_cast<int>((mean - *low) / range * 7.999), 0, 7)];
  }
  return text;
}

void ProgressLine::Show(const std::string& text) {
  if (FancyError()) {
    std::cerr << "\r\x1b[K" << FirstCells(text, TerminalWidth() - 1) << std::flush;
    shown_ = true;
    return;
  }
  const double now = std::chrono::duration<double>(SystemClock().Now().time_since_epoch()).count();
  if (now - last_plain_s_ < kPlainInterval_s) return;
  last_plain_s_ = now;
  std::cerr << text << std::endl;
}

void ProgressLine::Finish() {
  if (std::exchange(shown_, false)) std::cerr << std::endl;
}

}  // namespace shoal::client
