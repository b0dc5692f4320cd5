#include "client/base/screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "client/base/terminal.h"

namespace shoal::client {
namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";  // alternate screen, no cursor
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";

void WriteAll(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // the terminal is gone
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

sigset_t HeldSignals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH}) {
    ::sigaddset(&set, signal);
  }
  return set;
}

class TerminalScreen final : public Screen {
 public:
  TerminalScreen(int signals, const termios& before) : signals_(signals), before_(before) {
    Enter();
  }
  ~TerminalScreen() override {
    Leave();
    ::close(signals_);
  }

  ScreenSize Size() const override {
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
      return {};
    }
    return {size.ws_col, size.ws_row};
  }

  void Show(const std::vector<std::string>& lines) override {
    const ScreenSize size = Size();
    std::string text = "\x1b[H";
    const std::size_t count = std::min(lines.size(), size.rows);
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) text += "\r\n";
      // Cleared first: behind the last column that would take its letter away.
      text += "\x1b[2K" + Clipped(lines[i], size.columns);
    }
    if (count < size.rows) text += "\r\n\x1b[J";
    WriteAll(text);
  }

  ScreenEvent Wait(std::chrono::milliseconds timeout) override {
    pollfd files[] = {{signals_, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    if (::poll(files, 2, static_cast<int>(timeout.count())) <= 0) return {};
    if ((files[0].revents & POLLIN) != 0) return ReadSignal();
    if ((files[1].revents & POLLIN) != 0) return ReadKey();
    return {ScreenEvent::kSignal, 0, SIGHUP};  // the terminal is gone
  }

 private:
  void Enter() {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
    WriteAll(kEnter);
  }
  void Leave() {
    WriteAll(kLeave);
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  }

  ScreenEvent ReadSignal() {
    signalfd_siginfo info{};
    if (::read(signals_, &info, sizeof(info)) != sizeof(info)) return {};
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGTSTP) {  // Ctrl-Z; the shell gets its terminal until `fg`
      Leave();
      std::raise(SIGSTOP);
      Enter();
      return {ScreenEvent::kResized, 0, 0};
    }
    if (signal == SIGWINCH) return {ScreenEvent::kResized, 0, 0};
    return {ScreenEvent::kSignal, 0, signal};
  }

  static ScreenEvent ReadKey() {
    char typed[16];
    const ssize_t got = ::read(STDIN_FILENO, typed, sizeof(typed));
    if (got <= 0) return {ScreenEvent::kSignal, 0, SIGHUP};
    const std::string_view keys(typed, static_cast<std::size_t>(got));
    if (keys == "\x1b[A" || keys == "\x1bOA") return {ScreenEvent::kKey, 'k', 0};
    if (keys == "\x1b[B" || keys == "\x1bOB") return {ScreenEvent::kKey, 'j', 0};
    return {ScreenEvent::kKey, keys.front(), 0};
  }

  const int signals_;
  const termios before_;
};

}  // namespace

bool Screen::Available() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 && term != nullptr &&
         *term != '\0' && std::string_view(term) != "dumb";
}

void Screen::HoldSignals() {
  const sigset_t set = HeldSignals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Result<std::unique_ptr<Screen>> Screen::Open() {
  const sigset_t set = HeldSignals();
  termios before{};
  if (::tcgetattr(STDIN_FILENO, &before) != 0) {
    return Internal(std::string("the terminal cannot be read: ") + std::strerror(errno));
  }
  const int signals = ::signalfd(-1, &set, SFD_CLOEXEC);
  if (signals < 0) return Internal(std::string("signalfd: ") + std::strerror(errno));
  return std::unique_ptr<Screen>(std::make_unique<TerminalScreen>(signals, before));
}

void EndBySignal(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal);
  std::abort();
}

}  // namespace shoal::client
