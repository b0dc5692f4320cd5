// StopSignal: how a daemon's main thread waits for its end, from outside or from inside.

#ifndef SHOAL_COMMON_PROCESS_STOP_SIGNAL_H_
#define SHOAL_COMMON_PROCESS_STOP_SIGNAL_H_

#include "common/mutex.h"
#include "common/status.h"

namespace shoal {

// One per process.
class StopSignal {
 public:
  // Blocks SIGINT, SIGTERM and SIGUSR1; construct it before any other thread, which inherits that.
  // From then on a write that nobody reads fails (EPIPE), and does not end the process.
  StopSignal();

  // The process itself wants to end; `status` is why. Raises SIGUSR1. Thread: any.
  void Request(Status status);
  // Waits for a signal; Ok where it came from outside. From then on a signal from outside ends the
  // process at once.
  Status Wait();

 private:
  Mutex mutex_;
  Status status_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_COMMON_PROCESS_STOP_SIGNAL_H_
