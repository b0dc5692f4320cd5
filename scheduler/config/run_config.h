// RunConfig: what run.toml says, checked. `scheduler/config/toml_run_config.cc` knows TOML.

#ifndef SHOAL_SCHEDULER_CONFIG_RUN_CONFIG_H_
#define SHOAL_SCHEDULER_CONFIG_RUN_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "common/timeouts.h"
#include "common/units.h"

namespace shoal::scheduler {

// Files with which etcd and the schedulers know each other, and the user's name.
struct EtcdLogin {
  std::string ca, cert, key;        // PEM; ca: of the authority of etcd's certificates, for https
  std::string user, password_file;  // 0600, one line
  bool operator==(const EtcdLogin&) const = default;
};

struct RunConfig {
  // [run]
  std::string name = "run";
  std::string model = "model";      // Hugging Face directory
  std::string data = "data.shoal";  // prepared file
  std::string directory =
      "state";  // state of the scheduler: event log, artefacts, identity, socket
  std::uint64_t steps = 100;
  std::uint64_t seed = 1;
  std::uint32_t stages = 2;
  std::uint32_t pipelines = 1;
  std::vector<std::uint32_t> cuts;  // first layers of stages 1.., empty: even by cost
  std::uint32_t micro_batches = 8;  // per step, over all pipelines
  std::uint32_t micro_batch_rows = 2;
  std::string compute = "auto";  // auto: by the peer's device | fp32 | bf16
  double dropout = 0;
  std::string dropout_masks = "keyed";  // keyed: one mask per sample | fresh: another at each visit
  bool recompute = false;
  std::uint64_t checkpoint_every = 0;  // steps; 0: steps/checkpoint_interval.h chooses
  std::uint32_t checkpoint_keep = 2;
  std::uint64_t weight_check_every = 10;  // steps
  std::uint64_t evaluate_every = 100;     // steps; 0: never (steps/evaluation_rows.h)
  std::uint64_t evaluate_rows = 0;        // 0: as many as a step trains
  bool auto_start = true;                 // start as soon as enough peers are there
  std::vector<std::string> log_to;        // config/log_target.h: what trackers read
  // [model]
  std::string base = "source";  // format of what adapters leave as it is: source | WeightFormat
  // [adapter]
  std::string adapter_kind = "none";  // none | lora
  std::uint32_t adapter_rank = 16;
  double adapter_alpha = 32;
  double adapter_dropout = 0;
  bool adapter_rslora = false;
  std::vector<std::string> adapter_targets = {"all-linear"};
  std::vector<std::string> adapter_modules_to_save;
  // [codecs]
  // Why these: docs/algorithms/codec-specs.md, "Default codecs".
  std::string forward =
      "aqsgd:delta=dithered:step=0.55/klt=64/channels=on,"
      "first_visit=dithered:step=0.1/klt=64/channels=on";
  std::string backward =
      "aqsgd:delta=dithered:step=0.36/channels=on/of=values,"
      "first_visit=dithered:step=0.4/klt=64/channels=on";
  // [replica]
  std::string replica_method = "average";
  // [optimizer]
  double learning_rate = 5e-4;
  std::string decay = "linear";  // linear | cosine | none
  std::uint64_t warmup_steps = 10;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01, clip_norm = 1.0;
  // [schedule]
  std::string schedule = "auto";    // auto | 1f1b | zero-bubble
  std::uint32_t in_flight_max = 0;  // 0: from measured times
  // [network]
  std::string listen = "0.0.0.0:8781";
  std::vector<std::string> advertise;  // addresses in the invite; empty: found
  std::vector<std::string> relays;     // SECRET@host:port, that peers and scheduler use
  std::string relay_listen;            // host:port of a relay in this program; empty: none
  std::string status_listen = "127.0.0.1:8780";
  bool status_allow_remote = false;
  Duration peer_timeout = kPeerTimeoutDefault;
  // [checkpoint]
  std::string store;  // where complete checkpoints are copied to; empty: nowhere
  std::string store_endpoint, store_region = "us-east-1";
  bool store_plain_http = false;
  // [scheduler]
  std::vector<std::string> etcd;  // where several schedulers keep the history; empty: one, RocksDB
  std::string etcd_prefix = "shoal/run";
  EtcdLogin etcd_login;
  bool standing_invite = true;
  // Results of a peer within an hour that fail a check, then it is in quarantine; 0: never.
  std::uint32_t quarantine_after = 3;
  // Share of the visits of micro-batches to stages that are computed again; 0: none.
  double spot_checks = 0;
  // Not from the file:
  bool without_weights = false;  // the model is a config.json: peers have stages that need no more
  RunId run;
  std::uint64_t spot_check_seed = 0;  // which ones; nobody else may know
  std::string model_config_json;
  std::string adapter_config_json;  // empty: no adapter
  std::uint32_t layers = 0;
  std::uint32_t row_tokens = 0;
  bool segmented_rows = false;         // all stages read the data
  bool shared_part = false;            // all stages have the model's part "shared"
  std::vector<std::uint32_t> sharing;  // stages that share trained tensors, in order; or none
  std::uint64_t train_rows = 0, validation_rows = 0;
  std::vector<std::uint32_t> stage_first_layers;  // stages + 1 entries: cut points
  // Of a peer's memory, by stage, and of it for the one micro-batch that a stage cannot do without;
  // empty: unknown.
  std::vector<std::uint64_t> stage_bytes, micro_batch_bytes;
};

// Reads and checks the file; an unknown key, wrong type or unit is an error with line and what is
// allowed. Paths are relative to the file's folder.
Result<RunConfig> ReadRunConfig(const std::string& path);
// The effective values as TOML, every key with a comment: the documented sample.
std::string FormatRunConfig(const RunConfig& config);

// Learning rate at a step: linear warm-up, then the decay. Pure.
double LearningRate(const RunConfig& config, std::uint64_t step);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_CONFIG_RUN_CONFIG_H_
