#include "model/run/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace shoal::model {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void NoteInterrupt(int) { g_interrupted = 1; }

}  // namespace

bool IsTerminal(int descriptor) { return isatty(descriptor) == 1; }

std::size_t TerminalWidth() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  constexpr std::size_t kUsual = 80;  // of a terminal that does not know
  return size.ws_col > 0 ? size.ws_col : kUsual;
}

void WritePiece(std::string_view piece) {
  static const bool terminal = IsTerminal(STDOUT_FILENO);
  std::string shown(piece);
  for (char& c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    const bool control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F;
    if (terminal && control) c = '?';
  }
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  std::fflush(stdout);
}

Result<LineReader::Read> LineReader::Next(std::string* line) {
  for (;;) {
    const std::size_t end = bytes_.find('\n');
    if (end != std::string::npos || (end_ && !bytes_.empty())) {
      *line = bytes_.substr(0, end);
      bytes_.erase(0, end == std::string::npos ? end : end + 1);
      if (!line->empty() && line->back() == '\r') line->pop_back();
      return Read::kLine;
    }
    if (end_) return Read::kEnd;
    if (bytes_.size() > kLineBytesMax) {
      return InvalidArgument("a line of standard input is longer than " +
                             std::to_string(kLineBytesMax) + " bytes; give shorter messages");
    }
    std::array<char, 4096> piece;
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got > 0) {
      bytes_.append(piece.data(), static_cast<std::size_t>(got));
    } else if (got == 0) {
      end_ = true;
    } else if (errno == EINTR) {
      bytes_.clear();
      return Read::kInterrupted;
    } else {
      return Internal(std::string("standard input cannot be read: ") + std::strerror(errno));
    }
  }
}

Interrupts::Interrupts() {
  struct sigaction action = {};
  action.sa_handler = NoteInterrupt;  // without SA_RESTART: a read ends
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

Interrupts::~Interrupts() {
  std::signal(SIGINT, SIG_DFL);
  g_interrupted = 0;
}

bool Interrupts::Take() {
  const bool interrupted = g_interrupted != 0;
  g_interrupted = 0;
  return interrupted;
}

}  // namespace shoal::model
