#include "model/run/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace shoal::model {
namespace {

// A byte for each Ctrl-C: it waits for whoever reads next, and wakes a poll, whichever thread the
// signal came to. -1: nobody takes them.
std::array<int, 2> g_interrupts = {-1, -1};

void NoteInterrupt(int) {
  const int before = errno;
  const char note = 0;
  static_cast<void>(!::write(g_interrupts[1], &note, 1));
  errno = before;
}

// Waits for a byte of standard input, its end, or Ctrl-C; true: the last.
bool WaitForInput() {
  std::array<pollfd, 2> ready = {{{STDIN_FILENO, POLLIN, 0}, {g_interrupts[0], POLLIN, 0}}};
  while (::poll(ready.data(), ready.size(), -1) < 0 && errno == EINTR) continue;
  return ready[1].revents != 0;
}

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
    if (WaitForInput()) {
      static_cast<void>(Interrupts::Take());
      bytes_.clear();
      return Read::kInterrupted;
    }
    std::array<char, 4096> piece;
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got > 0) {
      bytes_.append(piece.data(), static_cast<std::size_t>(got));
    } else if (got == 0) {
      end_ = true;
    } else if (errno != EINTR) {
      return Internal(std::string("standard input cannot be read: ") + std::strerror(errno));
    }
  }
}

Interrupts::Interrupts() {
  // Without a pipe Ctrl-C ends the process, as ever.
  if (::pipe2(g_interrupts.data(), O_NONBLOCK | O_CLOEXEC) != 0) return;
  struct sigaction action = {};
  action.sa_handler = NoteInterrupt;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

Interrupts::~Interrupts() {
  std::signal(SIGINT, SIG_DFL);
  for (int& end : g_interrupts) {
    if (end >= 0) ::close(end);
    end = -1;
  }
}

bool Interrupts::Take() {
  std::array<char, 64> notes;
  return g_interrupts[0] >= 0 && ::read(g_interrupts[0], notes.data(), notes.size()) > 0;
}

}  // namespace shoal::model
