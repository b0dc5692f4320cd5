// LoopNet: LinkHubs of one process on real threads: a frame that is sent is a task of the executor,
// which all ends share. Two links with the same channel are the two ends of one.

#ifndef SHOAL_TESTS_SUPPORT_LOOP_LINKS_H_
#define SHOAL_TESTS_SUPPORT_LOOP_LINKS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/executor.h"
#include "net/links/link.h"

namespace shoal::test_support {

// Thread: the executor's.
class LoopNet {
 public:
  explicit LoopNet(Executor* executor) : executor_(executor) {}

  std::unique_ptr<net::Link> Connect(const net::LinkTarget& target, net::LinkHandlers handlers) {
    auto end = std::make_shared<End>();
    end->executor = executor_;
    end->handlers = std::move(handlers);
    end->stats.peer = target.peer;
    end->stats.channel = target.channel;
    std::shared_ptr<End>& waiting = waiting_[target.channel];
    if (waiting == nullptr) {
      waiting = end;
    } else {
      end->other = waiting;
      waiting->other = end;
      for (const auto& one : {end, std::exchange(waiting, nullptr)}) Open(one);
    }
    return std::make_unique<LoopLink>(std::move(end));
  }

 private:
  struct End {
    Executor* executor = nullptr;
    net::LinkHandlers handlers;
    net::LinkStats stats;
    std::shared_ptr<End> other;
    std::vector<net::Frame> early;  // sent before there was another end
    bool alive = true;              // the Link exists
    bool broken = false;            // and was told that it is closed
  };

  class LoopLink final : public net::Link {
   public:
    explicit LoopLink(std::shared_ptr<End> end) : end_(std::move(end)) {}
    ~LoopLink() override {
      SHOAL_ASSERT_ON(*end_->executor);
      end_->alive = false;
      const auto other = std::exchange(end_->other, nullptr);  // two ends would keep each other
      // Not at once: this may be a handler that destroys its own link.
      end_->executor->Post("link.drop", [end = end_] { end->handlers = {}; });
      if (other != nullptr) Break(other);
    }
    Status Send(net::Frame frame) override {
      SHOAL_ASSERT_ON(*end_->executor);
      if (end_->broken) return Unavailable("the link is closed");
      if (end_->other == nullptr) {
        end_->early.push_back(std::move(frame));
      } else {
        Deliver(end_, std::move(frame));
      }
      return Status::Ok();
    }
    net::LinkStats stats() const override { return end_->stats; }

   private:
    const std::shared_ptr<End> end_;
  };

  template <typename Task>
  static void Post(const char* name, const std::shared_ptr<End>& end, Task task) {
    auto held = std::make_shared<Task>(std::move(task));
    end->executor->Post(name, [end, held] {
      if (end->alive && !end->broken) (*held)();
    });
  }

  static void Open(const std::shared_ptr<End>& end) {
    Post("link.open", end, [end] {
      end->stats.connected = true;
      if (end->handlers.on_open) end->handlers.on_open();
    });
    for (net::Frame& frame : std::exchange(end->early, {})) Deliver(end, std::move(frame));
  }

  static void Deliver(const std::shared_ptr<End>& from, net::Frame frame) {
    const std::shared_ptr<End> to = from->other;
    ++from->stats.sent_frames;
    Post("link.sent", from, [from, kind = frame.kind, id = frame.micro_batch] {
      if (from->handlers.on_sent) from->handlers.on_sent(kind, id, 0);
    });
    Post("link.frame", to, [to, frame = std::move(frame)]() mutable {
      ++to->stats.received_frames;
      if (to->handlers.on_frame) to->handlers.on_frame(std::move(frame));
    });
  }

  static void Break(const std::shared_ptr<End>& end) {
    Post("link.closed", end, [end] {
      end->broken = true;
      end->other = nullptr;
      end->stats.connected = false;
      if (end->handlers.on_closed) end->handlers.on_closed(Unavailable("the other end closed it"));
    });
  }

  Executor* const executor_;
  std::map<std::string, std::shared_ptr<End>> waiting_;
};

class LoopHub final : public net::LinkHub {
 public:
  explicit LoopHub(LoopNet* loop) : loop_(loop) {}
  std::unique_ptr<net::Link> Dial(const net::LinkTarget& target, net::LinkHandlers h) override {
    return loop_->Connect(target, std::move(h));
  }
  std::unique_ptr<net::Link> Accept(const net::LinkTarget& target, net::LinkHandlers h) override {
    return loop_->Connect(target, std::move(h));
  }
  void SetCaps(BitsPerSecond, BitsPerSecond) override {}
  BitsPerSecond upload_cap() const override { return {}; }
  BitsPerSecond download_cap() const override { return {}; }
  std::uint16_t port() const override { return 1; }

 private:
  LoopNet* const loop_;
};

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_LOOP_LINKS_H_
