#include "common/process/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <initializer_list>
#include <utility>

namespace shoal {
namespace {

sigset_t SetOf(std::initializer_list<int> list) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : list) sigaddset(&signals, signal);
  return signals;
}

}  // namespace

StopSignal::StopSignal() {
  const sigset_t signals = SetOf({SIGINT, SIGTERM, SIGUSR1});
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Where its log goes through a pipe, or a library writes to a router that hung up, this signal
  // would end a daemon without a word.
  signal(SIGPIPE, SIG_IGN);
}

void StopSignal::Request(Status status) {
  {
    MutexLock lock(mutex_);
    status_ = std::move(status);
  }
  kill(getpid(), SIGUSR1);
}

Status StopSignal::Wait() {
  const sigset_t signals = SetOf({SIGINT, SIGTERM, SIGUSR1});
  int signal = 0;
  sigwait(&signals, &signal);
  // SIGUSR1 stays blocked: a second Request during the stop must not kill the process.
  const sigset_t from_outside = SetOf({SIGINT, SIGTERM});
  pthread_sigmask(SIG_UNBLOCK, &from_outside, nullptr);
  if (signal != SIGUSR1) return Status::Ok();
  MutexLock lock(mutex_);
  return status_;
}

}  // namespace shoal
