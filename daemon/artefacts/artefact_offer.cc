#include "daemon/artefacts/artefact_offer.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "common/file.h"
#include "common/log.h"

namespace shoal::daemon {
namespace {

// A file is sent so often, where the line or the scheduler's disk may do better the next time.
constexpr int kTriesMax = 4;
constexpr Duration kTryAgainAfter = std::chrono::seconds(1);  // twice that with each further one

bool MayPass(const Status& status) {
  switch (status.code()) {
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kDataLoss:
    case StatusCode::kResourceExhausted:
    case StatusCode::kAborted: return true;
    default: return false;
  }
}

}  // namespace

struct ArtefactOffer::State {
  Executor* control;
  Executor* store;
  storage::ContentStore* content;
  Client client;
  std::vector<storage::ArtefactRef> artefacts;
  std::function<void(Status)> done;
  std::size_t current = 0;
  std::optional<storage::ContentHash> sending;
  std::set<storage::ContentHash> sent;  // of these artefacts
  int tries = 0;                        // of the one under way that failed
  Status failure;
  bool stopped = false;  // control
};

ArtefactOffer::ArtefactOffer(Executor* control, Executor* store, storage::ContentStore* content)
    : control_(control), store_(store), content_(content) {}

ArtefactOffer::~ArtefactOffer() { Stop(); }

void ArtefactOffer::Stop() {
  SHOAL_ASSERT_ON(*control_);
  if (state_) state_->stopped = true;
}

bool ArtefactOffer::busy() const {
  SHOAL_ASSERT_ON(*control_);
  return state_ && !state_->stopped && state_->done;
}

void ArtefactOffer::Start(Client client, std::vector<storage::ArtefactRef> artefacts,
                          std::function<void(Status)> done) {
  SHOAL_ASSERT_ON(*control_);
  const bool goes_on = state_ && !state_->stopped && state_->sending &&
                       std::ranges::any_of(artefacts, [this](const storage::ArtefactRef& artefact) {
                         return artefact.hash == *state_->sending;
                       });
  if (!goes_on) {
    Stop();
    state_ = std::make_shared<State>();
  }
  state_->control = control_;
  state_->store = store_;
  state_->content = content_;
  state_->client = std::move(client);
  state_->artefacts = std::move(artefacts);
  state_->done = std::move(done);
  state_->current = 0;
  state_->sent.clear();
  state_->failure = Status::Ok();
  if (!goes_on) Next(state_);
}

void ArtefactOffer::Next(const std::shared_ptr<State>& state) {
  if (state->stopped) return;
  state->sending.reset();
  while (state->current < state->artefacts.size() &&
         state->sent.contains(state->artefacts[state->current].hash)) {
    ++state->current;
  }
  if (state->current == state->artefacts.size()) {
    std::exchange(state->done, nullptr)(state->failure);
    return;
  }
  const storage::ArtefactRef artefact = state->artefacts[state->current++];
  state->sending = artefact.hash;
  state->tries = 0;
  Look(state, artefact);
}

void ArtefactOffer::Look(const std::shared_ptr<State>& state,
                         const storage::ArtefactRef& artefact) {
  state->store->Post("offer.look", [state, artefact] {
    // Verifies it: damage never travels.
    const Result<std::string> path = state->content->PathOf(artefact.hash);
    auto file = path.ok() ? MappedFile::Open(*path) : path.status();
    state->control->Post(
        "offer.looked", [state, artefact, file = std::move(file)] { Send(state, artefact, file); });
  });
}

void ArtefactOffer::Send(const std::shared_ptr<State>& state, const storage::ArtefactRef& artefact,
                         const Result<std::shared_ptr<const MappedFile>>& file) {
  if (state->stopped) return;
  net::ControlClient* const client = state->client();
  if (client == nullptr) {
    state->stopped = true;
    return;
  }
  const auto ended = [state, artefact](const Status& status) {
    SHOAL_ASSERT_ON(*state->control);
    if (status.ok()) {
      state->sent.insert(artefact.hash);
    } else {
      SHOAL_LOG(kWarning, "daemon", "artefact.not_offered", {"name", artefact.name},
                {"error", status.message()});
      state->failure = status.WithContext("upload of " + artefact.name);
    }
    Next(state);
  };
  if (!file.ok()) return ended(file.status());
  if ((*file)->bytes().size() != artefact.size) return ended(DataLoss("it has another size"));
  SHOAL_LOG(kInfo, "daemon", "artefact.offer", {"name", artefact.name}, {"bytes", artefact.size});
  const auto& digest = artefact.hash.digest;
  client->Upload(
      std::string(reinterpret_cast<const char*>(digest.data()), digest.size()), artefact.size,
      [file = *file](std::uint64_t offset, std::size_t size) -> Result<std::string> {
        const auto bytes = file->bytes();
        if (offset > bytes.size()) return OutOfRange("upload behind the end of the file");
        const auto part = bytes.subspan(offset, std::min(size, bytes.size() - offset));
        return std::string(reinterpret_cast<const char*>(part.data()), part.size());
      },
      [state, artefact, ended](const Status& status) {
        SHOAL_ASSERT_ON(*state->control);
        if (status.ok() || !MayPass(status) || state->tries + 1 == kTriesMax) return ended(status);
        SHOAL_LOG(kInfo, "daemon", "artefact.offered_again", {"name", artefact.name},
                  {"after", status.message()});
        const Duration pause = kTryAgainAfter * (1 << state->tries++);
        state->control->PostAfter("offer.again", pause, [state, artefact] {
          if (!state->stopped) Look(state, artefact);
        });
      });
}

}  // namespace shoal::daemon
