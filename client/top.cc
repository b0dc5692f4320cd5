#include "client/top.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "client/base/failure.h"
#include "client/base/screen.h"
#include "client/base/terminal.h"
#include "client/top_view.h"

namespace shoal::client {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// What the person has asked for so far.
struct Watch {
  std::size_t scrolled = 0;  // lines
  bool ended = false;        // by 'q'
  int signal = 0;
};

std::vector<std::string> Frame(const Result<std::string>& status, const Screen& screen,
                               std::size_t scrolled) {
  const ScreenSize size = screen.Size();
  std::vector<std::string> lines =
      TopFrame(status.ok() ? *status : "", status.status(), size.columns, size.rows, scrolled);
  if (!ShowsUtf8()) {
    for (std::string& line : lines) line = ToAscii(line);
  }
  return lines;
}

// Shows `status` until `until`, again whenever the terminal's size changes.
void ShowUntil(const Result<std::string>& status, SteadyTime until, Screen* screen, Watch* watch) {
  bool stale = true;
  while (!watch->ended && watch->signal == 0) {
    if (std::exchange(stale, false)) screen->Show(Frame(status, *screen, watch->scrolled));
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    // Also where it is over: shoald may take longer to answer than that, and keys and signals are
    // heard here alone.
    const bool over = left.count() <= 0;
    const ScreenEvent event = screen->Wait(over ? std::chrono::milliseconds(0) : left);
    stale = event.kind == ScreenEvent::kResized || event.kind == ScreenEvent::kKey;
    if (event.kind == ScreenEvent::kSignal) watch->signal = event.signal;
    if (event.kind != ScreenEvent::kKey && over) return;
    if (event.kind != ScreenEvent::kKey) continue;
    if (event.key == 'q' || event.key == 'Q') watch->ended = true;
    if (event.key == 'j') ++watch->scrolled;
    if (event.key == 'k') watch->scrolled -= std::min<std::size_t>(watch->scrolled, 1);
    if (over) return;
  }
}

}  // namespace

ExitCode WatchOnScreen(const std::function<Result<std::string>()>& ask, double interval_s,
                       int rounds) {
  Result<std::unique_ptr<Screen>> screen = Screen::Open();
  if (!screen.ok()) return Fail(screen.status());
  const auto interval = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(interval_s));
  Watch watch;
  for (int round = 0; rounds == 0 || round < rounds; ++round) {
    const SteadyTime next = std::chrono::steady_clock::now() + interval;
    ShowUntil(ask(), next, screen->get(), &watch);
    if (watch.ended || watch.signal != 0) break;
  }
  *screen = nullptr;
  if (watch.signal != 0) EndBySignal(watch.signal);
  return ExitCode::kOk;
}

}  // namespace shoal::client
