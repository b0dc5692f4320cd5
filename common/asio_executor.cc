// The only file with Asio's executor machinery: one io_context behind each Executor.

#include <utility>  // Asio 1.74 forgets it in C++20 mode; must come first.

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>
#include <vector>

#include "common/executor.h"
#include "common/mutex.h"
#include "common/trace.h"

namespace shoal {
namespace {

class AsioExecutor final : public Executor {
 public:
  AsioExecutor(std::string name, int threads)
      : context_(ConcurrencyHint(threads)), work_(boost::asio::make_work_guard(context_)) {
    for (int i = 0; i < threads; ++i) {
      const std::string thread_name = threads == 1 ? name : name + "-" + std::to_string(i);
      threads_.emplace_back([this, thread_name] {
        SetThreadName(thread_name);
        current_ = this;
        context_.run();
      });
    }
  }

  ~AsioExecutor() override {
    SHOAL_CHECK(!InThread());  // a thread cannot wait for its own end
    {
      MutexLock lock(mutex_);
      timers_.clear();
      stopping_ = true;
    }
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
  }

  void Post(const char*, std::function<void()> task) override {
    boost::asio::post(context_, std::move(task));
  }

  TimerId PostAfter(const char*, Duration delay, std::function<void()> task) override {
    MutexLock lock(mutex_);
    const TimerId id = ++last_timer_;
    if (stopping_) return id;
    auto timer = std::make_unique<boost::asio::steady_timer>(context_);
    timer->expires_after(std::max(delay, Duration::zero()));
    timer->async_wait([this, id, task = std::move(task)](boost::system::error_code) {
      if (TakeTimer(id)) task();
    });
    timers_.emplace(id, std::move(timer));
    return id;
  }

  void CancelTimer(TimerId timer) override {
    SHOAL_ASSERT_ON(*this);
    TakeTimer(timer);
  }

  bool InThread() const override { return current_ == this; }
  const Clock& clock() const override { return SystemClock(); }

 private:
  // With the hint 1, Asio queues a thread's own posts behind those of other threads that come while
  // the task runs. Any other hint keeps one queue, in order of posting.
  static int ConcurrencyHint(int threads) { return std::max(threads, 2); }

  // Whether the timer was still waited for; forgets it. Its destruction wakes the handler, which
  // then finds it gone.
  bool TakeTimer(TimerId id) {
    std::unique_ptr<boost::asio::steady_timer> taken;
    MutexLock lock(mutex_);
    const auto found = timers_.find(id);
    if (found == timers_.end()) return false;
    taken = std::move(found->second);
    timers_.erase(found);
    return true;
  }

  static thread_local const AsioExecutor* current_;

  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  Mutex mutex_;
  std::map<TimerId, std::unique_ptr<boost::asio::steady_timer>> timers_ SHOAL_GUARDED_BY(mutex_);
  TimerId last_timer_ SHOAL_GUARDED_BY(mutex_) = 0;
  bool stopping_ SHOAL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use everything above
};

thread_local const AsioExecutor* AsioExecutor::current_ = nullptr;

}  // namespace

void internal::CalledOffThread(const char* file, int line, const char* method) {
  std::fprintf(stderr, "shoal: internal error: %s:%d: called off its thread: %s\n", file, line,
               method);
  std::abort();
}

std::unique_ptr<Executor> NewThreadExecutor(std::string thread_name) {
  return std::make_unique<AsioExecutor>(std::move(thread_name), 1);
}

std::unique_ptr<Executor> NewThreadPool(std::string thread_name, int threads) {
  SHOAL_CHECK(threads >= 1);
  return std::make_unique<AsioExecutor>(std::move(thread_name), threads);
}

}  // namespace shoal
