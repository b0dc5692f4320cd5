// FakeControlClient: a ControlClient whose scheduler is a map of blobs; it answers in chunks, one
// per task of the executor, and misbehaves on demand.

#ifndef SHOAL_TESTS_SUPPORT_FAKE_CONTROL_CLIENT_H_
#define SHOAL_TESTS_SUPPORT_FAKE_CONTROL_CLIENT_H_

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/control/control.h"

namespace shoal::test_support {

// Thread: the executor's.
class FakeControlClient final : public net::ControlClient {
 public:
  explicit FakeControlClient(Executor* executor) : executor_(executor) {}
  ~FakeControlClient() override { *alive_ = false; }

  Status Send(control::v1::PeerMessage) override {
    SHOAL_ASSERT_ON(*executor_);
    return Status::Ok();
  }
  void Fetch(const std::string& hash, std::uint64_t offset,
             std::function<Status(std::string)> on_chunk,
             std::function<void(Status)> on_done) override {
    SHOAL_ASSERT_ON(*executor_);
    offsets.push_back(offset);
    if (offsets.size() == 1 && on_first_fetch) on_first_fetch();
    NextChunk(hash, offset, std::move(on_chunk), std::move(on_done));
  }
  void Upload(const std::string& hash, std::uint64_t size,
              std::function<Result<std::string>(std::uint64_t, std::size_t)> read,
              std::function<void(Status)> on_done) override {
    SHOAL_ASSERT_ON(*executor_);
    NextPiece(hash, size, "", std::move(read), std::move(on_done));
  }
  std::string address() const override { return ""; }
  net::ControlStats stats() const override { return {}; }

  std::map<std::string, std::string> blobs, uploads;  // by raw hash; whole ones
  std::vector<std::uint64_t> offsets;                 // of the fetches so far
  std::vector<Status> refusals;                       // of chunks
  std::function<void()> on_first_fetch;
  std::function<void()> on_first_piece;  // of an upload: some of it was read, not all
  std::size_t chunk_bytes = 1000;
  std::optional<std::size_t> break_after;  // bytes of a fetch; then the stream breaks, once
  bool stall = false;                      // a fetch brings one chunk and no more
  std::deque<Status> upload_failures;      // of the next uploads, one each
  Status upload_status;                    // of uploads that came whole

 private:
  template <typename Task>
  void Post(Task task) {
    executor_->Post("fake", [alive = alive_, task = std::move(task)] {
      if (*alive) task();
    });
  }

  void NextChunk(const std::string& hash, std::uint64_t at,
                 std::function<Status(std::string)> on_chunk, std::function<void(Status)> on_done) {
    Post([this, alive = alive_, hash, at, on_chunk = std::move(on_chunk),
          on_done = std::move(on_done)] {
      const auto found = blobs.find(hash);
      if (found == blobs.end()) return on_done(NotFound("no artefact of this hash"));
      if (break_after && at >= *break_after) {
        break_after.reset();
        return on_done(Unavailable("the stream broke"));
      }
      if (at >= found->second.size()) return on_done(Status::Ok());
      const std::string chunk = found->second.substr(at, chunk_bytes);
      const Status status = on_chunk(chunk);
      if (!*alive) return;
      if (!status.ok()) {
        refusals.push_back(status);
        return on_done(status);
      }
      if (!stall) NextChunk(hash, at + chunk.size(), on_chunk, on_done);
    });
  }
  void NextPiece(const std::string& hash, std::uint64_t size, std::string got,
                 std::function<Result<std::string>(std::uint64_t, std::size_t)> read,
                 std::function<void(Status)> on_done) {
    Post([this, alive = alive_, hash, size, got = std::move(got), read = std::move(read),
          on_done = std::move(on_done)] {
      if (!upload_failures.empty()) {
        const Status failure = upload_failures.front();
        upload_failures.pop_front();
        return on_done(failure);
      }
      if (got.size() >= size) {
        uploads[hash] = got;
        return on_done(upload_status);
      }
      const auto wanted = std::min<std::uint64_t>(chunk_bytes, size - got.size());
      const Result<std::string> piece = read(got.size(), wanted);
      if (!*alive) return;
      if (!piece.ok()) return on_done(piece.status());
      if (on_first_piece) std::exchange(on_first_piece, nullptr)();
      NextPiece(hash, size, got + *piece, read, on_done);
    });
  }

  Executor* const executor_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_FAKE_CONTROL_CLIENT_H_
