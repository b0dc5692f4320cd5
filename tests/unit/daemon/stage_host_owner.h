// What a StageHost in tests works with: a model, and an owner that notes what it is told.

#ifndef SHOAL_TESTS_UNIT_DAEMON_STAGE_HOST_OWNER_H_
#define SHOAL_TESTS_UNIT_DAEMON_STAGE_HOST_OWNER_H_

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/stage_host.h"
#include "tests/support/fake_control_client.h"

namespace shoal::daemon {

namespace fs = std::filesystem;
using control::v1::PeerMessage;
using test_support::FakeControlClient;
using testing::HasSubstr;

inline constexpr std::uint32_t kRowTokens = 8;
inline constexpr std::uint32_t kVocabulary = 1024;
inline constexpr const char* kConfig =
    R"({"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"n_layer":1,"n_embd":16,)"
    R"("n_head":2,"n_positions":8,"vocab_size":1024,"activation_function":"gelu_new"})";

struct FakeOwner final : StageHost::Owner {
  net::ControlClient* client() override { return connected ? &*fake : nullptr; }
  void Tell(PeerMessage message) override { told.push_back(std::move(message)); }
  void OnStageState(PeerState state, const std::string& reason) override {
    states.emplace_back(state, reason);
  }
  void OnStageHangs(const std::string& what) override { hangs.push_back(what); }
  // The newest message of a kind.
  const PeerMessage* Told(PeerMessage::KindCase kind) const {
    for (auto message = told.rbegin(); message != told.rend(); ++message) {
      if (message->kind_case() == kind) return &*message;
    }
    return nullptr;
  }

  FakeControlClient* fake = nullptr;
  bool connected = true;
  std::vector<PeerMessage> told;
  std::vector<std::pair<PeerState, std::string>> states;
  std::vector<std::string> hangs;
};

// Of the host of the moment. `resources` has its executors and stores by now.
inline std::unique_ptr<CheckpointSaver> MakeSaver(const StageResources& resources,
                                                  storage::CheckpointStore* checkpoints,
                                                  FakeOwner* owner,
                                                  const std::unique_ptr<StageHost>* host) {
  return std::make_unique<CheckpointSaver>(
      CheckpointSaver::Parts{resources.control, resources.compute, resources.store,
                             resources.content, resources.delta_store, checkpoints},
      [owner](PeerMessage message) { owner->Tell(std::move(message)); },
      [host] { return *host ? (*host)->blobs() : std::vector<storage::ContentHash>(); });
}

}  // namespace shoal::daemon

#endif  // SHOAL_TESTS_UNIT_DAEMON_STAGE_HOST_OWNER_H_
