// What every Link does, whatever carries it: the fixture of a suite that runs on all kinds.

#ifndef SHOAL_TESTS_UNIT_NET_LINKS_LINK_CONTRACT_H_
#define SHOAL_TESTS_UNIT_NET_LINKS_LINK_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/links/link.h"

namespace shoal::net {

// Two hubs, 0 and 1, on one executor.
class LinkRig {
 public:
  virtual ~LinkRig() = default;
  virtual Executor* executor() = 0;
  // The link's end at hub 0 or 1; 0 dials. On the executor.
  virtual std::unique_ptr<Link> Open(std::size_t end, const std::string& channel,
                                     LinkHandlers handlers) = 0;
  virtual PeerId peer(std::size_t end) = 0;
  // Runs `task` on the executor and waits for it.
  virtual void On(const std::function<void()>& task) = 0;
  // Lets things happen until it holds, asked on the executor; false: it never did.
  virtual bool Wait(const std::function<bool()>& holds) = 0;
};

using NewLinkRig = std::unique_ptr<LinkRig> (*)();

// One end, and all that it was told.
struct ToldEnd {
  std::unique_ptr<Link> link;
  int opened = 0;
  std::vector<Frame> frames;
  std::vector<Status> closed;
  std::vector<std::uint32_t> sent;  // micro-batches
};

class LinkContract : public testing::TestWithParam<NewLinkRig> {
 protected:
  static constexpr RunId kRun{0x77};

  ~LinkContract() override {
    On([this] {
      for (ToldEnd& end : ends_) end.link.reset();
    });
  }

  static Frame MakeFrame(std::uint32_t index, std::size_t bytes = 100,
                         FrameKind kind = FrameKind::kGradient) {
    Frame frame;
    frame.kind = kind;
    frame.run = kRun;
    frame.generation = 1;
    frame.micro_batch = {5, index};
    frame.tag = 1000 + index;
    frame.codec = "aqsgd:bits=4";
    frame.tokens = 3;
    frame.hidden = 4;
    frame.samples = {{SampleId{9}, 3, 0xfeed}};
    frame.payload = Buffer(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      frame.payload.data()[i] = static_cast<std::byte>(i * 31 + index);
    }
    return frame;
  }
  static void ExpectSame(const Frame& a, const Frame& b) {
    EXPECT_EQ(a.kind, b.kind);
    EXPECT_EQ(a.run, b.run);
    EXPECT_EQ(a.generation, b.generation);
    EXPECT_EQ(a.micro_batch, b.micro_batch);
    EXPECT_EQ(a.tag, b.tag);
    EXPECT_EQ(a.codec, b.codec);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.hidden, b.hidden);
    ASSERT_EQ(a.samples.size(), b.samples.size());
    EXPECT_EQ(a.samples[0].sample, b.samples[0].sample);
    EXPECT_EQ(a.samples[0].base_version, b.samples[0].base_version);
    EXPECT_EQ(a.samples[0].base_checksum, b.samples[0].base_checksum);
    EXPECT_TRUE(std::ranges::equal(a.payload.bytes(), b.payload.bytes()));
  }

  LinkHandlers Tell(ToldEnd* end) {
    LinkHandlers handlers;
    handlers.on_open = [this, end] {
      ExpectTask(*end);
      ++end->opened;
    };
    handlers.on_frame = [this, end](Frame frame) {
      ExpectTask(*end);
      EXPECT_EQ(end->opened, 1);
      end->frames.push_back(std::move(frame));
    };
    handlers.on_closed = [this, end](Status status) {
      ExpectTask(*end);
      end->closed.push_back(std::move(status));
    };
    handlers.on_sent = [this, end](FrameKind, MicroBatchId id, double elapsed_ms) {
      ExpectTask(*end);
      EXPECT_GE(elapsed_ms, 0);
      end->sent.push_back(id.index);
    };
    return handlers;
  }
  // A handler is a task of its own on the executor, and nothing follows the end.
  void ExpectTask(const ToldEnd& end) {
    EXPECT_TRUE(rig_->executor()->InThread());
    EXPECT_FALSE(inside_);
    EXPECT_NE(end.link, nullptr);
    EXPECT_TRUE(end.closed.empty());
  }

  void On(const std::function<void()>& task) { rig_->On(task); }
  bool Wait(const std::function<bool()>& holds) { return rig_->Wait(holds); }
  void OpenEnd(std::size_t end, LinkHandlers handlers, const std::string& channel = "boundary/0") {
    ends_[end].link = rig_->Open(end, channel, std::move(handlers));
  }
  void Connect() {
    On([this] {
      OpenEnd(0, Tell(&ends_[0]));
      OpenEnd(1, Tell(&ends_[1]));
    });
    ASSERT_TRUE(Wait([this] { return ends_[0].opened == 1 && ends_[1].opened == 1; }));
  }
  // Sends within what must call nothing.
  Status Send(std::size_t end, Frame frame) {
    inside_ = true;
    Status status = ends_[end].link->Send(std::move(frame));
    inside_ = false;
    return status;
  }

  const std::unique_ptr<LinkRig> rig_ = GetParam()();
  bool inside_ = false;  // a call to a link
  ToldEnd ends_[2];
};

}  // namespace shoal::net

#endif  // SHOAL_TESTS_UNIT_NET_LINKS_LINK_CONTRACT_H_
