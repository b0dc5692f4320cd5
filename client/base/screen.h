// The whole terminal for one program: the alternate screen, keys as they are typed, and the
// terminal as it was when it ends, also by a signal. Thread: main.

#ifndef SHOAL_CLIENT_BASE_SCREEN_H_
#define SHOAL_CLIENT_BASE_SCREEN_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"

namespace shoal::client {

struct ScreenSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

struct ScreenEvent {
  enum Kind { kTimeout, kKey, kResized, kSignal };
  Kind kind = kTimeout;
  char key = 0;    // of kKey; arrows are 'j' (down) and 'k' (up)
  int signal = 0;  // of kSignal: the program is to end
};

class Screen {
 public:
  // Whether standard input and output are a terminal that has an alternate screen.
  static bool Available();

  // From here on signals wait for a screen, in this thread and in those that it starts. To be
  // called before there are others, which would be ended by them.
  static void HoldSignals();

  // Signals that end the program come as events. Needs HoldSignals.
  static Result<std::unique_ptr<Screen>> Open();
  virtual ~Screen() = default;  // the terminal is as it was

  virtual ScreenSize Size() const = 0;
  // Replaces what is shown, without flicker. Lines that are too long, or too many, are cut.
  virtual void Show(const std::vector<std::string>& lines) = 0;
  virtual ScreenEvent Wait(std::chrono::milliseconds timeout) = 0;
};

// Ends this program by `signal`, as if nobody had caught it. The screen must be closed.
[[noreturn]] void EndBySignal(int signal);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_BASE_SCREEN_H_
