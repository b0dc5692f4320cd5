#include "daemon/artefacts/artefact_fetcher.h"

#include <atomic>
#include <utility>

#include "common/log.h"

namespace shoal::daemon {

struct ArtefactFetcher::State {
  Executor* control;
  Executor* store;
  storage::ContentStore* content;
  Client client;
  std::vector<storage::ArtefactRef> artefacts;
  std::function<void(Status)> done;
  std::size_t current = 0;
  bool resumed = false;  // the current one builds on bytes of an earlier attempt
  bool stopped = false;  // control thread
  FetchProgress progress;
  // Set on the store thread when a chunk could not be written; stops the stream.
  std::atomic<bool> write_failed = false;
  Status write_status;  // store thread, read on control after write_failed

  const storage::ArtefactRef& artefact() const { return artefacts[current]; }
  std::string wire_hash() const {
    const auto& digest = artefact().hash.digest;
    return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
  }
};

ArtefactFetcher::ArtefactFetcher(Executor* control, Executor* store, storage::ContentStore* content)
    : control_(control), store_(store), content_(content) {}

ArtefactFetcher::~ArtefactFetcher() {
  SHOAL_ASSERT_ON(*control_);
  if (state_) state_->stopped = true;
}

void ArtefactFetcher::Start(Client client, std::vector<storage::ArtefactRef> artefacts,
                            std::function<void(Status)> done) {
  SHOAL_ASSERT_ON(*control_);
  if (state_) state_->stopped = true;
  state_ = std::make_shared<State>();
  state_->control = control_;
  state_->store = store_;
  state_->content = content_;
  state_->client = std::move(client);
  state_->artefacts = std::move(artefacts);
  state_->done = std::move(done);
  for (const storage::ArtefactRef& artefact : state_->artefacts) {
    state_->progress.bytes_total += artefact.size;
  }
  Next(state_);
}

FetchProgress ArtefactFetcher::progress() const {
  SHOAL_ASSERT_ON(*control_);
  return state_ ? state_->progress : FetchProgress{};
}

void ArtefactFetcher::Next(const std::shared_ptr<State>& state) {
  if (state->stopped) return;
  if (state->current == state->artefacts.size()) {
    Done(state, Status::Ok());
    return;
  }
  state->store->Post("artefact.look", [state, artefact = state->artefact()] {
    const bool there = state->content->Has(artefact.hash);
    const std::uint64_t offset = there ? artefact.size : state->content->PartialSize(artefact.hash);
    state->control->Post("artefact.looked", [state, there, offset] {
      if (state->stopped) return;
      if (there) {
        state->progress.bytes_done += state->artefact().size;
        ++state->current;
        Next(state);
      } else if (offset >= state->artefact().size) {
        state->resumed = offset > 0;
        state->progress.bytes_done += state->artefact().size;
        Finish(state);
      } else {
        Fetch(state, offset);
      }
    });
  });
}

void ArtefactFetcher::Fetch(const std::shared_ptr<State>& state, std::uint64_t offset) {
  SHOAL_LOG(kInfo, "daemon", "artefact.fetch", {"name", state->artefact().name},
            {"bytes", state->artefact().size}, {"offset", offset});
  state->resumed = offset > 0;
  state->progress.bytes_done += offset;
  net::ControlClient* const client = state->client();
  if (client == nullptr) {
    const Status gone = Unavailable("not connected to the scheduler");
    return Done(state, gone.WithContext("fetching artefact " + state->artefact().name));
  }
  auto position = std::make_shared<std::uint64_t>(offset);
  const storage::ContentHash hash = state->artefact().hash;
  const std::uint64_t size = state->artefact().size;
  client->Fetch(
      state->wire_hash(), offset,
      [state, position, hash, size](std::string chunk) -> Status {
        SHOAL_ASSERT_ON(*state->control);
        if (state->stopped) return Cancelled("the fetch was stopped");
        if (state->write_failed) return Aborted("the chunk could not be written");
        if (chunk.size() > size - *position) {
          return DataLoss("the scheduler sent more bytes than the artefact has");
        }
        const std::uint64_t at = *position;
        *position += chunk.size();
        state->progress.bytes_done += chunk.size();
        state->store->Post("artefact.write", [state, hash, at, chunk = std::move(chunk)] {
          if (state->write_failed) return;
          const Status status = state->content->AppendPartial(
              hash, at, std::as_bytes(std::span(chunk.data(), chunk.size())));
          if (!status.ok()) {
            state->write_status = status;
            state->write_failed = true;
          }
        });
        return Status::Ok();
      },
      [state](Status status) {
        SHOAL_ASSERT_ON(*state->control);
        if (state->stopped) return;
        if (!status.ok() && !state->write_failed) {
          Done(state, status.WithContext("fetching artefact " + state->artefact().name));
          return;
        }
        Finish(state);
      });
}

void ArtefactFetcher::Finish(const std::shared_ptr<State>& state) {
  state->store->Post("artefact.finish", [state, artefact = state->artefact()] {
    Status status = state->write_failed
                        ? state->write_status
                        : state->content->FinishPartial(artefact.hash, artefact.size);
    state->control->Post("artefact.finished", [state, status = std::move(status)] {
      if (state->stopped) return;
      if (status.code() == StatusCode::kDataLoss && state->resumed && !state->write_failed) {
        // The disk may have damaged what lay there; the scheduler's bytes are judged by a fetch
        // from the beginning.
        SHOAL_LOG(kWarning, "daemon", "artefact.again", {"name", state->artefact().name});
        state->progress.bytes_done -= state->artefact().size;
        Fetch(state, 0);
        return;
      }
      if (!status.ok()) {
        Done(state, status.WithContext("storing artefact " + state->artefact().name));
        return;
      }
      ++state->current;
      Next(state);
    });
  });
}

void ArtefactFetcher::Done(const std::shared_ptr<State>& state, Status status) {
  state->stopped = true;
  const auto done = std::move(state->done);
  done(std::move(status));
}

}  // namespace shoal::daemon
