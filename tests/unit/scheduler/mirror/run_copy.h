// A small run, its copies and a folder as a store, for the tests of this folder.

#ifndef SHOAL_TESTS_UNIT_SCHEDULER_MIRROR_RUN_COPY_H_
#define SHOAL_TESTS_UNIT_SCHEDULER_MIRROR_RUN_COPY_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "common/file.h"
#include "net/objects/object_store.h"
#include "net/objects/open_object_store.h"
#include "scheduler/config/run_config.h"
#include "scheduler/history/stored_event.h"
#include "scheduler/mirror/checkpoint_upload.h"
#include "tests/support/temporary_folder.h"

namespace shoal::scheduler {

inline std::unique_ptr<net::ObjectStore> FolderStore(const std::string& folder,
                                                     std::stop_token stop = {}) {
  net::ObjectStoreOptions options;
  options.address = "file://" + folder;
  options.wait = [](Duration) {};
  options.stop = std::move(stop);
  auto store = net::OpenObjectStore(std::move(options));
  EXPECT_TRUE(store.ok()) << store.status().ToString();
  return *std::move(store);
}

// Files of a run, under their hashes.
class RunCopies {
 public:
  explicit RunCopies(std::string folder) : folder_(std::move(folder)) {}

  // After `step` steps. The initial parts stay what they are; the others are new ones each step.
  CheckpointCopy Make(std::uint64_t step, std::uint64_t generation = 1, RunId run = RunId{0x12}) {
    CheckpointCopy copy;
    copy.run.run = run;
    copy.run.generation = generation;
    copy.run.step = step;
    RunConfig config;
    config.name = "copied";
    config.steps = 40;
    config.advertise = {"h:1"};
    config.etcd = {"http://h:2379"};
    copy.run.config = FormatRunConfig(config);
    copy.run.initial = {Add(&copy, "data", "the data"), Add(&copy, "layer.0", "fresh weights")};
    const std::string at = std::to_string(step);
    copy.run.checkpoint = {Add(&copy, "layer.0", "weights " + at),
                           Add(&copy, "layer.0.optimizer", "moments " + at)};
    copy.run.origin = {Add(&copy, "origin.json", "of the model"),
                       Add(&copy, "model/config.json", "{}")};
    CheckpointMade made{step, {}};
    for (const storage::ArtefactRef& file : copy.run.checkpoint) {
      control::v1::ArtefactRef& ref = made.files.emplace_back();
      ref.set_name(file.name);
      ref.set_hash(file.hash.digest.data(), file.hash.digest.size());
      ref.set_size(file.size);
    }
    for (const StoredEvent& event :
         std::vector<StoredEvent>{RunBegan{run, 7}, RunStarted{}, PlanMade{generation, 0, {}},
                                  LossesKnown{0, std::vector<double>(step, 1.5)}, made}) {
      copy.events += EncodeEvent(event) + "\n";
    }
    copy.run.events = {"events", storage::HashOf(std::as_bytes(std::span(copy.events))),
                       copy.events.size()};
    return copy;
  }

 private:
  storage::ArtefactRef Add(CheckpointCopy* copy, const std::string& name,
                           const std::string& bytes) {
    const storage::ContentHash hash = storage::HashOf(std::as_bytes(std::span(bytes)));
    const std::string path = folder_ + "/" + hash.ToHex();
    EXPECT_TRUE(WriteFileAtomic(path, bytes).ok());
    copy->files[hash] = path;
    return {name, hash, bytes.size()};
  }

  const std::string folder_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_UNIT_SCHEDULER_MIRROR_RUN_COPY_H_
