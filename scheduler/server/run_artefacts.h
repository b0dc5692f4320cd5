// RunArtefacts: what peers fetch, the parts of the model and the prepared data, and the way back
// into a model directory. They are made from what run.toml names and checked against each other.

#ifndef SHOAL_SCHEDULER_SERVER_RUN_ARTEFACTS_H_
#define SHOAL_SCHEDULER_SERVER_RUN_ARTEFACTS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "dataset/prepared_data.h"
#include "model/families/model_spec.h"
#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/server/run_origin.h"
#include "storage/delta/delta_size.h"
#include "storage/files/content_store.h"

namespace shoal::scheduler {

struct RunArtefacts {
  model::ModelSpec model;
  dataset::DataInfo data;
  std::map<std::string, control::v1::ArtefactRef> initial;  // by part name, and "data"
  std::string model_folder;                  // with config.json and these, as they are now:
  std::vector<std::string> tokenizer_files;  // paths
  bool from_origin = false;                  // what the run's folder keeps stood in for some of it
  bool without_weights = false;              // of the model
};

// Fills config's model_config_json, layers, row_tokens, train_rows, stage_first_layers,
// stage_bytes and micro_batch_bytes, and puts parts and data into `content`. Model and data that do
// not fit each other or the run are invalid arguments. For those that cannot be read stands what
// the run's folder keeps of them, if it does. Blocks on disk.
Result<RunArtefacts> MakeRunArtefacts(storage::ContentStore* content, RunConfig* config);

// What to keep of it in the run's folder.
RunOrigin OriginOf(const RunArtefacts& artefacts);

// Makes one of artefacts.initial again, where model and data are as they were; not found: it is
// none of these. Blocks on disk.
Status MakeArtefactAgain(const RunConfig& config, const RunArtefacts& artefacts,
                         const storage::ContentHash& hash, storage::ContentStore* content);

// Invalid argument for stages that the model does not have, or a codec that no peer could make. Ok
// where the model cannot be read: the start of the run says so. Blocks on disk.
Status CheckAgainstModel(const RunConfig& config);

// How much m the run will keep. A codec that no peer could make, and data that do not fit the model
// or the run, are invalid arguments. Blocks on disk.
Result<storage::DeltaSize> ReadDeltaSize(const RunConfig& config);
storage::DeltaSize DeltaSizeOf(const RunConfig& config, const model::ModelSpec& model,
                               const dataset::DataInfo& data);
// One or two sentences of it, each on a line; "" if the codecs keep none.
std::string DescribeDeltaSize(const RunConfig& config, const storage::DeltaSize& size);

// What each stage will take of a peer's memory, as a table with a head; and cuts that fit where
// some stage takes more than `memory_bytes` (0: not known). Blocks on disk.
Result<std::string> DescribeStages(const RunConfig& config, std::uint64_t memory_bytes);

// What peers of a run that does not exist yet have.
struct ReplicaNeeds {
  BitsPerSecond link;              // above 0
  Duration step{};                 // without the exchange; above 0
  std::uint64_t memory_bytes = 0;  // of a peer; 0: not known
};
// What an exchange between the pipelines costs, and which method fits; "" with one pipeline. Blocks
// on disk.
Result<std::string> DescribeReplica(const RunConfig& config, const ReplicaNeeds& needs);
// The method that fits, as in a run file; with one pipeline the one that a run file has. Not found
// if none does. Blocks on disk.
Result<std::string> SuggestReplica(const RunConfig& config, const ReplicaNeeds& needs);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_RUN_ARTEFACTS_H_
