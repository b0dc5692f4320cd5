#include "tests/support/sim_links.h"

#include <algorithm>
#include <utility>

namespace shoal::test_support {

struct SimNetwork::End {
  PeerId self, peer;
  Executor* executor = nullptr;
  net::LinkHandlers handlers;
  bool alive = true;              // the Link exists and did not report its end
  bool closed = false;            // it takes nothing any more, and is about to report that
  std::vector<net::Frame> early;  // sent before there was another end
  bool met = false;               // there is or was another end
  std::weak_ptr<End> other;
  TimePoint free{}, last_arrival{};
  net::LinkStats stats;
};

namespace {

class SimLink final : public net::Link {
 public:
  SimLink(SimNetwork* network, std::shared_ptr<SimNetwork::End> end)
      : network_(network), end_(std::move(end)) {}
  ~SimLink() override { network_->Leave(end_); }
  Status Send(net::Frame frame) override {
    SHOAL_ASSERT_ON(*end_->executor);
    return network_->Send(end_.get(), std::move(frame));
  }
  net::LinkStats stats() const override { return end_->stats; }

 private:
  SimNetwork* const network_;
  const std::shared_ptr<SimNetwork::End> end_;
};

class SimHub final : public net::LinkHub {
 public:
  SimHub(SimNetwork* network, const PeerId& self, Executor* executor)
      : network_(network), self_(self), executor_(executor) {}
  std::unique_ptr<net::Link> Dial(const net::LinkTarget& target,
                                  net::LinkHandlers handlers) override {
    return network_->Connect(self_, executor_, target, std::move(handlers));
  }
  std::unique_ptr<net::Link> Accept(const net::LinkTarget& target,
                                    net::LinkHandlers handlers) override {
    return network_->Connect(self_, executor_, target, std::move(handlers));
  }
  void SetCaps(BitsPerSecond, BitsPerSecond) override {}
  BitsPerSecond upload_cap() const override { return {}; }
  BitsPerSecond download_cap() const override { return {}; }
  std::uint16_t port() const override { return 1; }

 private:
  SimNetwork* const network_;
  const PeerId self_;
  Executor* const executor_;
};

// Runs `task(end)` on the end's executor at `when`, if its link still lives.
template <typename Task>
void At(SimWorld* world, TimePoint when, const std::shared_ptr<SimNetwork::End>& end, Task task) {
  auto held = std::make_shared<Task>(std::move(task));
  world->At(when, [end, held] {
    if (!end->alive) return;
    end->executor->Post("link", [end, held] {
      if (end->alive) (*held)(end.get());
    });
  });
}

// From `when` on nothing can be sent; its owner hears of it a moment later.
void Break(SimWorld* world, const std::shared_ptr<SimNetwork::End>& end, TimePoint when,
           Duration moment) {
  world->At(when, [end] { end->closed = true; });
  At(world, when + moment, end, [](SimNetwork::End* broken) {
    broken->alive = false;
    broken->stats.connected = false;
    // Moved out: the handler may destroy its link.
    const auto closed = std::move(broken->handlers.on_closed);
    if (closed) closed(Unavailable("the connection was reset"));
  });
}

}  // namespace

std::unique_ptr<net::LinkHub> SimNetwork::NewHub(const PeerId& self, Executor* executor) {
  return std::make_unique<SimHub>(this, self, executor);
}

std::unique_ptr<net::Link> SimNetwork::Connect(const PeerId& self, Executor* executor,
                                               const net::LinkTarget& target,
                                               net::LinkHandlers handlers) {
  auto end = std::make_shared<End>();
  end->self = self;
  end->peer = target.peer;
  end->executor = executor;
  end->handlers = std::move(handlers);
  end->stats.peer = target.peer;
  end->stats.channel = target.channel;
  ends_.push_back(end);
  const Key key{target.run.value, target.generation, target.channel, std::min(self, target.peer),
                std::max(self, target.peer)};
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) {
    waiting_.emplace(key, end);
  } else {
    const std::shared_ptr<End> other = found->second;
    waiting_.erase(found);
    end->other = other;
    other->other = end;
    end->met = other->met = true;
    for (const auto& one : {end, other}) {
      At(world_, world_->Now() + options_.latency(), one, [](End* opened) {
        opened->stats.connected = true;
        const auto on_open = opened->handlers.on_open;  // it may destroy its link
        if (on_open) on_open();
      });
    }
    for (const auto& one : {end, other}) {
      for (net::Frame& frame : std::exchange(one->early, {})) {
        static_cast<void>(Send(one.get(), std::move(frame)));
      }
    }
  }
  return std::make_unique<SimLink>(this, std::move(end));
}

Status SimNetwork::Send(End* from, net::Frame frame) {
  if (!from->alive || from->closed) return Unavailable("the link is closed");
  if (!from->met) {
    from->early.push_back(std::move(frame));
    return Status::Ok();
  }
  const std::shared_ptr<End> to = from->other.lock();
  if (to == nullptr || !to->alive) return Status::Ok();  // lost, as on a real line
  const int times = tap ? tap(from->self, from->peer, &frame) : 1;
  const double rate = options_.rate ? options_.rate(from->self) : options_.bytes_per_second;
  const double seconds = rate > 0 ? static_cast<double>(frame.payload.size()) / rate : 0;
  const TimePoint queued = world_->Now();
  from->free = std::max(from->free, queued) + std::chrono::nanoseconds(std::int64_t(seconds * 1e9));
  from->stats.sent_wire_bytes += frame.payload.size();
  ++from->stats.sent_frames;
  const auto self = to->other.lock();
  At(world_, from->free, self,
     [kind = frame.kind, id = frame.micro_batch, elapsed = from->free - queued](End* end) {
       const auto on_sent = end->handlers.on_sent;
       if (!on_sent) return;
       on_sent(kind, id, std::chrono::duration<double, std::milli>(elapsed).count());
     });
  for (int i = 0; i < times; ++i) {
    to->last_arrival = std::max(to->last_arrival, from->free + options_.latency());
    Deliver(to, to->last_arrival, CopyOf(frame));
  }
  return Status::Ok();
}

void SimNetwork::Deliver(const std::shared_ptr<End>& to, TimePoint when, net::Frame frame) {
  At(world_, when, to, [frame = std::move(frame)](End* end) mutable {
    end->stats.received_wire_bytes += frame.payload.size();
    ++end->stats.received_frames;
    const auto on_frame = end->handlers.on_frame;
    if (on_frame) on_frame(std::move(frame));
  });
}

void SimNetwork::Kill(const PeerId& peer) {
  for (const std::weak_ptr<End>& weak : ends_) {
    const std::shared_ptr<End> end = weak.lock();
    if (end == nullptr || (end->self != peer && end->peer != peer)) continue;
    Break(world_, end, world_->Now() + options_.latency(), options_.latency());
  }
}

void SimNetwork::Leave(const std::shared_ptr<End>& end) {
  end->alive = false;
  end->handlers = {};
  std::erase_if(waiting_, [&](const auto& entry) { return entry.second == end; });
  if (const std::shared_ptr<End> other = end->other.lock()) {
    Break(world_, other, world_->Now() + options_.latency(), options_.latency());
  }
}

}  // namespace shoal::test_support
