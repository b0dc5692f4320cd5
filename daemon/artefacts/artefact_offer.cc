#include "daemon/artefacts/artefact_offer.h"

#include <algorithm>
#include <span>
#include <utility>

#include "common/file.h"
#include "common/log.h"

namespace shoal::daemon {

struct ArtefactOffer::State {
  Executor* control;
  Executor* store;
  storage::ContentStore* content;
  Client client;
  std::vector<storage::ArtefactRef> artefacts;
  std::function<void()> done;
  std::size_t current = 0;
  bool stopped = false;  // control
};

ArtefactOffer::ArtefactOffer(Executor* control, Executor* store, storage::ContentStore* content)
    : control_(control), store_(store), content_(content) {}

ArtefactOffer::~ArtefactOffer() { Stop(); }

void ArtefactOffer::Stop() {
  SHOAL_ASSERT_ON(*control_);
  if (state_) state_->stopped = true;
}

void ArtefactOffer::Start(Client client, std::vector<storage::ArtefactRef> artefacts,
                          std::function<void()> done) {
  SHOAL_ASSERT_ON(*control_);
  Stop();
  state_ = std::make_shared<State>(
      State{control_, store_, content_, std::move(client), std::move(artefacts), std::move(done)});
  Next(state_);
}

void ArtefactOffer::Next(const std::shared_ptr<State>& state) {
  if (state->stopped) return;
  if (state->current == state->artefacts.size()) {
    state->stopped = true;
    return state->done();
  }
  const storage::ArtefactRef artefact = state->artefacts[state->current++];
  state->store->Post("offer.look", [state, artefact] {
    // Verifies it: damage never travels.
    const Result<std::string> path = state->content->PathOf(artefact.hash);
    std::shared_ptr<const MappedFile> file;
    if (path.ok()) {
      if (auto mapped = MappedFile::Open(*path); mapped.ok()) file = *std::move(mapped);
    }
    state->control->Post("offer.looked", [state, artefact, file] {
      if (state->stopped) return;
      net::ControlClient* const client = state->client();
      if (client == nullptr) return;
      if (!file || file->bytes().size() != artefact.size) return Next(state);
      SHOAL_LOG(kInfo, "daemon", "artefact.offer", {"name", artefact.name},
                {"bytes", artefact.size});
      const auto& digest = artefact.hash.digest;
      client->Upload(
          std::string(reinterpret_cast<const char*>(digest.data()), digest.size()), artefact.size,
          [file](std::uint64_t offset, std::size_t size) -> Result<std::string> {
            const auto bytes = file->bytes();
            if (offset > bytes.size()) return OutOfRange("upload behind the end of the file");
            const auto part = bytes.subspan(offset, std::min(size, bytes.size() - offset));
            return std::string(reinterpret_cast<const char*>(part.data()), part.size());
          },
          [state, name = artefact.name](const Status& status) {
            SHOAL_ASSERT_ON(*state->control);
            if (!status.ok()) {
              SHOAL_LOG(kWarning, "daemon", "artefact.offer", {"name", name},
                        {"error", status.message()});
            }
            Next(state);
          });
    });
  });
}

}  // namespace shoal::daemon
