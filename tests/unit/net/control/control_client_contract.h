// What every ControlClient does with artefacts: the fixture of a suite that runs on all kinds.

#ifndef SHOAL_TESTS_UNIT_NET_CONTROL_CONTROL_CLIENT_CONTRACT_H_
#define SHOAL_TESTS_UNIT_NET_CONTROL_CONTROL_CLIENT_CONTRACT_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/control/control.h"
#include "tests/support/on_executor.h"

namespace shoal::net {

// A client on a thread of its own, and the scheduler that it has.
class ControlClientRig {
 public:
  virtual ~ControlClientRig() = default;
  virtual std::unique_ptr<ControlClient> NewClient() = 0;  // on the executor
  virtual void Serve(const std::string& hash, std::string blob) = 0;
  virtual std::string Uploaded(const std::string& hash) = 0;  // on the executor
  Executor* executor() { return executor_.get(); }

 protected:
  const std::unique_ptr<Executor> executor_ = NewThreadExecutor("control");
};

using NewControlClientRig = std::unique_ptr<ControlClientRig> (*)();

class ControlClientContract : public testing::TestWithParam<NewControlClientRig> {
 protected:
  // What a fetch told.
  struct Told {
    std::string bytes;
    int chunks = 0;
    std::vector<Status> done;
  };

  ControlClientContract() {
    On([this] { client_ = rig_->NewClient(); });
  }
  ~ControlClientContract() override {
    On([this] { client_.reset(); });
  }

  static std::string EndOf(const Told& told) {
    return told.done.size() == 1 ? told.done[0].ToString()
                                 : std::to_string(told.done.size()) + " ends";
  }

  static std::string HashOf(char name) { return std::string(32, name); }
  static std::string Blob(std::size_t size, char seed = 0) {
    std::string blob(size, '\0');
    for (std::size_t i = 0; i < size; ++i) blob[i] = static_cast<char>(i * 7 + (i >> 9) + seed);
    return blob;
  }
  template <typename Task>
  void On(Task task) {
    test_support::RunOn(rig_->executor(), [&task] {
      task();
      return 0;
    });
  }
  bool Wait(const std::function<bool()>& holds) {
    return test_support::WaitUntil(rig_->executor(), holds);
  }
  // Every call is a task of the executor, not made from within a call to the client.
  void ExpectTask(const Told& told) {
    EXPECT_TRUE(rig_->executor()->InThread());
    EXPECT_FALSE(inside_);
    EXPECT_TRUE(told.done.empty()) << "a call after the end";
  }
  void Fetch(const std::string& hash, std::uint64_t offset, Told* told,
             std::function<Status()> at_chunk = nullptr, std::function<void()> at_end = nullptr) {
    inside_ = true;
    client_->Fetch(
        hash, offset,
        [this, told, at_chunk](std::string chunk) {
          ExpectTask(*told);
          told->bytes += chunk;
          ++told->chunks;
          return at_chunk ? at_chunk() : Status::Ok();
        },
        [this, told, at_end](Status status) {
          ExpectTask(*told);
          told->done.push_back(std::move(status));
          if (at_end) at_end();
        });
    inside_ = false;
  }
  void Upload(const std::string& hash, std::uint64_t size, Told* told,
              std::function<Result<std::string>(std::uint64_t, std::size_t)> read) {
    inside_ = true;
    client_->Upload(
        hash, size,
        [this, told, read](std::uint64_t offset, std::size_t bytes) {
          ExpectTask(*told);
          ++told->chunks;
          return read(offset, bytes);
        },
        [this, told](Status status) {
          ExpectTask(*told);
          told->done.push_back(std::move(status));
        });
    inside_ = false;
  }

  const std::unique_ptr<ControlClientRig> rig_ = GetParam()();
  std::unique_ptr<ControlClient> client_;
  bool inside_ = false;  // a call to the client
};

}  // namespace shoal::net

#endif  // SHOAL_TESTS_UNIT_NET_CONTROL_CONTROL_CLIENT_CONTRACT_H_
