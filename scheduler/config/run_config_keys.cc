#include "scheduler/config/run_config_keys.h"

#include <algorithm>
#include <cctype>
#include <tuple>

#include "model/families/adapter_config.h"
#include "net/base/host_port.h"
#include "net/etcd/etcd.h"
#include "net/objects/object_address.h"
#include "net/relay/relay_address.h"
#include "replica/methods/group_limits.h"
#include "replica/methods/replica_method.h"
#include "scheduler/config/log_target.h"
#include "scheduler/config/swarm_limits.h"

namespace shoal::scheduler {
namespace {

constexpr double kCountMax = 1e12;
constexpr std::uint64_t kPositionsMax = 4096;
constexpr std::size_t kEtcdPrefixBytesMax = 200;

double Seconds(Duration duration) { return Milliseconds(duration) / 1000; }

bool IsWord(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
  });
}

// A codec's name, with an entropy coder behind it or not: direct+rans.
bool IsCodecName(std::string_view text) {
  const std::size_t plus = text.find('+');
  if (plus == std::string_view::npos) return IsWord(text);
  return IsWord(text.substr(0, plus)) && IsWord(text.substr(plus + 1));
}

// A value may be a codec itself, with '/' between its options: first_visit=direct:bits=8/bucket=64.
bool IsCodecValue(std::string_view text) {
  while (true) {
    const std::size_t border = text.find_first_of(":/=");
    if (!IsCodecName(text.substr(0, border))) return false;
    if (border == std::string_view::npos) return true;
    text = text.substr(border + 1);
  }
}

void AddRunKeys(RunConfig* c, std::vector<RunConfigKey>* keys) {
  const auto add = [&](std::string_view name, RunConfigKey::Target target, double min, double max,
                       std::string_view allowed, std::string_view help) {
    keys->push_back({"run", name, target, min, max, allowed, help});
  };
  add("name", &c->name, 0, 0, "", "name of the run, shown to its peers");
  add("model", &c->model, 0, 0, "", "Hugging Face model directory to start from");
  add("data", &c->data, 0, 0, "", "prepared file, made by: shoal prepare");
  add("directory", &c->directory, 0, 0, "",
      "where the scheduler keeps its event log, artefacts, key and socket");
  add("steps", &c->steps, 1, kCountMax, "", "optimizer steps of the whole run");
  add("seed", &c->seed, 0, 9e18, "", "seed of the order of samples and of dropout");
  add("stages", &c->stages, 1, 256, "",
      "stages of each pipeline: peers that the layers are divided among");
  add("pipelines", &c->pipelines, 1, replica::kPipelinesMax, "",
      "pipelines that train side by side");
  add("cuts", &c->cuts, 1, 100000, "",
      "first layer of each stage after the first; empty: stages of equal estimated cost");
  add("micro_batches", &c->micro_batches, 1, 65536, "",
      "micro-batches per step, over all pipelines");
  add("micro_batch_rows", &c->micro_batch_rows, 1, 65536, "", "samples per micro-batch");
  add("compute", &c->compute, 0, 0, "auto|fp32|bf16",
      "number format of the layers' arithmetic; auto: bf16 on GPUs that multiply it, else fp32");
  add("dropout", &c->dropout, 0, 0.99, "", "probability of dropout; 0: no dropout");
  add("dropout_masks", &c->dropout_masks, 0, 0, "keyed|fresh",
      "keyed: one mask per sample, so that aqsgd's changes stay small; fresh: another at each "
      "visit");
  add("recompute", &c->recompute, 0, 0, "",
      "recompute activations in the backward: less memory, more time");
  add("checkpoint_every", &c->checkpoint_every, 0, kCountMax, "",
      "steps between checkpoints; 0: by what one costs and how often steps were lost");
  add("checkpoint_keep", &c->checkpoint_keep, 1, 1000, "", "checkpoints a peer keeps");
  add("weight_check_every", &c->weight_check_every, 1, kCountMax, "",
      "steps between comparisons of the weights that peers of one stage hold; every checkpoint has "
      "one, too");
  add("evaluate_every", &c->evaluate_every, 0, kCountMax, "",
      "steps between measurements of the held-out loss, on validation rows; 0: never");
  add("evaluate_rows", &c->evaluate_rows, 0, kEvaluateRowsMax, "",
      "validation rows of a measurement; 0: as many as a step trains");
  add("auto_start", &c->auto_start, 0, 0, "",
      "start with enough peers; false: wait for shoal swarm start");
  add("log_to", &c->log_to, 0, 0, "",
      "where losses, rates and events are written for trackers: tensorboard:FOLDER, jsonl:FILE; "
      "empty: nowhere");
}

void AddAdapterKeys(RunConfig* c, std::vector<RunConfigKey>* keys) {
  const auto add = [&](std::string_view name, RunConfigKey::Target target, double min, double max,
                       std::string_view allowed, std::string_view help) {
    keys->push_back({"adapter", name, target, min, max, allowed, help});
  };
  keys->push_back({"model", "base", &c->base, 0, 0, "source|fp32|bf16|fp16|int8|nf4",
                   "how the peers keep the model beside adapters; nf4: 4 bits a value (QLoRA); "
                   "source: as the model's files have it"});
  add("kind", &c->adapter_kind, 0, 0, "none|lora",
      "lora: small matrices beside the model's are trained, the model stays as it is; none: all of "
      "the model is trained");
  add("rank", &c->adapter_rank, 1, model::kAdapterRankMax, "", "width of an adapter");
  add("alpha", &c->adapter_alpha, 1e-6, 1e6, "", "what an adapter gives is scaled by alpha / rank");
  add("dropout", &c->adapter_dropout, 0, 0.99, "", "probability of dropout before an adapter");
  add("rslora", &c->adapter_rslora, 0, 0, "", "scale by alpha / square root of rank instead");
  add("targets", &c->adapter_targets, 0, 0, "",
      "ends of the names of modules that get adapters, as in PEFT; all-linear: every product of "
      "the "
      "layers");
  add("modules_to_save", &c->adapter_modules_to_save, 0, 0, "",
      "ends of the names of modules that are trained themselves; a classifier's head always is");
}

void AddTrainingKeys(RunConfig* c, std::vector<RunConfigKey>* keys) {
  const auto add = [&](std::string_view section, std::string_view name, RunConfigKey::Target target,
                       double min, double max, std::string_view allowed, std::string_view help) {
    keys->push_back({section, name, target, min, max, allowed, help});
  };
  add("codecs", "forward", &c->forward, 0, 0, "", "codec of activations");
  add("codecs", "backward", &c->backward, 0, 0, "",
      "codec of gradients of activations; with half the disk, and half a bit to a bit a value more "
      "behind the first epoch, dithered:step=0.4,klt=64,channels=on");
  add("replica", "method", &c->replica_method, 0, 0, "",
      "how pipelines combine gradients: average, average:dtype=bf16, "
      "average:codec=dithered:step=0.3, qadam:bits=4, onebit, powersgd:rank=16, "
      "qsdp:weights=8,gradients=8, marsit or "
      "cocktail; most take local_steps=16, too");
  add("optimizer", "learning_rate", &c->learning_rate, 0, 1e3, "",
      "learning rate after the warm-up, the highest");
  add("optimizer", "decay", &c->decay, 0, 0, "linear|cosine|none",
      "course of the learning rate after the warm-up");
  add("optimizer", "warmup_steps", &c->warmup_steps, 0, kCountMax, "",
      "steps in which the learning rate grows linearly");
  add("optimizer", "beta1", &c->beta1, 0, 0.999999, "", "AdamW: decay of the first moment");
  add("optimizer", "beta2", &c->beta2, 0, 0.9999999, "", "AdamW: decay of the second moment");
  add("optimizer", "epsilon", &c->epsilon, 1e-16, 1, "",
      "AdamW: added to the root of the second moment");
  add("optimizer", "weight_decay", &c->weight_decay, 0, 10, "", "AdamW: decoupled weight decay");
  add("optimizer", "clip_norm", &c->clip_norm, 0, 1e6, "",
      "gradients are clipped to this global norm; 0: no clipping");
  add("schedule", "kind", &c->schedule, 0, 0, "auto|1f1b|zero-bubble",
      "order of work in a pipeline; auto: zero-bubble where memory allows");
  add("schedule", "in_flight_max", &c->in_flight_max, 0, 65536, "",
      "most micro-batches in flight per stage; 0: chosen from measured times");
  add("network", "listen", &c->listen, 0, 0, "", "host:port for peers; port 0: any free one");
  add("network", "advertise", &c->advertise, 0, 0, "",
      "host or host:port put into the invite; empty: this machine's addresses");
  add("network", "relays", &c->relays, 0, 0, "",
      "relays for whoever cannot be reached from outside, this scheduler included: "
      "SECRET@host:port, "
      "as shoal-relay prints it");
  add("network", "relay_listen", &c->relay_listen, 0, 0, "",
      "host:port of a relay that runs in this program, like 0.0.0.0:8783; empty: none");
  add("network", "status_listen", &c->status_listen, 0, 0, "",
      "host:port of status page and metrics; port 0: any free one");
  add("network", "status_allow_remote", &c->status_allow_remote, 0, 0, "",
      "let status_listen be other than loopback, as in a container");
  add("network", "peer_timeout", &c->peer_timeout, Seconds(kPeerTimeoutMin),
      Seconds(kPeerTimeoutMax), "",
      "the longest silence of a peer; one whose heartbeats are regular is lost after half of it; "
      "all "
      "other timeouts follow from it: shoal doctor prints them");
}

void AddStoreKeys(RunConfig* c, std::vector<RunConfigKey>* keys) {
  const auto add = [&](std::string_view name, RunConfigKey::Target target, std::string_view help) {
    keys->push_back({"checkpoint", name, target, 0, 0, "", help});
  };
  add("store", &c->store,
      "where complete checkpoints are copied to, so that the run outlives this machine: "
      "s3://BUCKET/PREFIX or file:///FOLDER; empty: nowhere");
  add("endpoint", &c->store_endpoint,
      "of an S3-compatible service, like https://s3.example.org; empty: Amazon's of the region");
  add("region", &c->store_region, "that requests to the store are signed for");
  add("plain_http", &c->store_plain_http,
      "let the endpoint be http:// on another machine: whoever is on the way reads the model");
}

void AddSchedulerKeys(RunConfig* c, std::vector<RunConfigKey>* keys) {
  keys->push_back({"scheduler", "etcd", &c->etcd, 0, 0, "",
                   "addresses of etcd, like https://10.0.0.1:2379, which keeps the history of "
                   "several schedulers, one of which leads; empty: one scheduler, with its own"});
  const std::tuple<const char*, std::string*, const char*> logins[] = {
      {"etcd_ca", &c->etcd_login.ca, "file with the certificate of etcd's authority, for https"},
      {"etcd_cert", &c->etcd_login.cert,
       "file with the certificate that etcd asks of us; or empty"},
      {"etcd_key", &c->etcd_login.key, "file with its key, which no other user can read"},
      {"etcd_user", &c->etcd_login.user, "of etcd, where it asks for a password; or empty"},
      {"etcd_password_file", &c->etcd_login.password_file,
       "file with the password, which no other user can read"}};
  for (const auto& [name, target, help] : logins) {
    keys->push_back({"scheduler", name, target, 0, 0, "", help});
  }
  keys->push_back({"scheduler", "prefix", &c->etcd_prefix, 0, 0, "",
                   "of the run's keys in etcd; no two runs may have the same"});
  keys->push_back({"scheduler", "standing_invite", &c->standing_invite, 0, 0, "",
                   "print an invite without limits at the start; false: it lets nobody in, and "
                   "shoal swarm invite makes invites that end"});
  keys->push_back({"scheduler", "quarantine_after", &c->quarantine_after, 0, 1000, "",
                   "a peer gets no stage for a while after so many of its results within an hour "
                   "have failed a check; 0: never"});
  keys->push_back({"scheduler", "spot_checks", &c->spot_checks, 0, 1, "",
                   "share of micro-batches of a stage that others of its group compute again, one "
                   "a step at most; 0: none, as each costs a forward and its activations' upload, "
                   "twice with three pipelines"});
}

Status CheckEtcd(const RunConfig& c) {
  const EtcdLogin& login = c.etcd_login;
  for (const std::string& text : c.etcd) {
    const auto parsed = net::ParseEtcdAddress(text);
    if (!parsed.ok()) return parsed.status().WithContext("[scheduler] etcd");
    const net::EtcdAddress& address = *parsed;
    if (address.tls && login.ca.empty()) {
      return InvalidArgument("[scheduler] etcd_ca is missing: which certificates " + text +
                             " may show");
    }
    if (!address.tls && !(login.ca + login.cert + login.key).empty()) {
      return InvalidArgument("[scheduler] etcd_ca, etcd_cert and etcd_key need https://, not " +
                             text);
    }
    if (!address.tls && !address.loopback && !login.user.empty()) {
      return InvalidArgument("[scheduler] etcd_user: whoever is on the way to " + text +
                             " could read the password; write https://");
    }
  }
  if (login.cert.empty() != login.key.empty()) {
    return InvalidArgument("[scheduler] etcd_cert and etcd_key belong together");
  }
  if (login.user.empty() != login.password_file.empty()) {
    return InvalidArgument("[scheduler] etcd_user and etcd_password_file belong together");
  }
  return Status::Ok();
}

// All schedulers have the same file, so it must say where peers find each of them.
Status CheckSchedulers(const RunConfig& c) {
  if (c.etcd.empty()) {
    if (c.etcd_login == EtcdLogin()) return Status::Ok();
    return InvalidArgument(
        "[scheduler] etcd_ca, etcd_cert, etcd_key, etcd_user and etcd_password_file need etcd");
  }
  if (c.etcd.size() > net::kEtcdAddressesMax) {
    return InvalidArgument("[scheduler] etcd has more than 16 addresses");
  }
  SHOAL_RETURN_IF_ERROR(CheckEtcd(c));
  const std::string& prefix = c.etcd_prefix;
  const bool right = std::all_of(prefix.begin(), prefix.end(), [](unsigned char one) {
    return std::isalnum(one) != 0 || one == '_' || one == '.' || one == '-' || one == '/';
  });
  if (!right || prefix.empty() || prefix.size() > kEtcdPrefixBytesMax || prefix.back() == '/') {
    return InvalidArgument(
        "[scheduler] prefix must be 1 to 200 letters, digits and _.-/ with no "
        "/ at its end");
  }
  if (c.advertise.empty()) {
    return InvalidArgument(
        "with [scheduler] etcd, advertise must name the addresses of all "
        "schedulers, for the invite");
  }
  const auto listen = net::ParseHostPort(c.listen);
  if (listen.ok() && listen->port == 0) {
    return InvalidArgument("with [scheduler] etcd, listen needs a port that stays the same");
  }
  return Status::Ok();
}

// A checker must have the same weights, all of them, and no mask to draw.
Status CheckSpotChecks(const RunConfig& c) {
  if (c.spot_checks == 0) return Status::Ok();
  const std::string what = "[scheduler] spot_checks needs ";
  if (c.pipelines < 2) return InvalidArgument(what + "pipelines = 2 or more");
  if (c.dropout > 0 || c.adapter_dropout > 0) return InvalidArgument(what + "dropout = 0");
  SHOAL_ASSIGN_OR_RETURN(const replica::ReplicaMethod method,
                         replica::ParseReplicaMethod(c.replica_method));
  if (method.traits.follows_steps && !method.traits.shards_parameters && method.local.steps == 0) {
    return Status::Ok();
  }
  return InvalidArgument(what + "a replica method with equal, whole weights in each step, not '" +
                         c.replica_method + "'");
}

Status CheckStore(const RunConfig& c) {
  if (c.store.empty()) return Status::Ok();
  SHOAL_ASSIGN_OR_RETURN(const net::ObjectAddress address, net::ParseObjectAddress(c.store));
  if (address.bucket.empty()) return Status::Ok();
  return net::ParseObjectEndpoint(c.store_endpoint, c.store_region, c.store_plain_http)
      .status()
      .WithContext("[checkpoint] endpoint, region");
}

Status CheckLogs(const RunConfig& c) {
  if (c.log_to.size() > kLogTargetsMax) {
    return InvalidArgument("log_to names more than " + std::to_string(kLogTargetsMax) + " logs");
  }
  std::vector<std::string> seen;
  for (const std::string& text : c.log_to) {
    SHOAL_RETURN_IF_ERROR(ParseLogTarget(text).status().WithContext("log_to"));
    if (std::find(seen.begin(), seen.end(), text) != seen.end()) {
      return InvalidArgument("log_to names \"" + text + "\" twice");
    }
    seen.push_back(text);
  }
  return Status::Ok();
}

}  // namespace

std::vector<RunConfigKey> RunConfigKeys(RunConfig* config) {
  std::vector<RunConfigKey> keys;
  AddRunKeys(config, &keys);
  AddAdapterKeys(config, &keys);
  AddTrainingKeys(config, &keys);
  AddStoreKeys(config, &keys);
  AddSchedulerKeys(config, &keys);
  return keys;
}

Status CheckCodecText(std::string_view key, std::string_view text) {
  const auto wrong = [&] {
    return InvalidArgument(std::string(key) + " = \"" + std::string(text) +
                           "\" is no codec; write name or name:key=value,key=value, for example "
                           "\"aqsgd:bits=4\" or \"raw:dtype=fp32\"");
  };
  const std::size_t colon = text.find(':');
  if (text.size() > 200 || !IsCodecName(text.substr(0, colon))) return wrong();
  if (colon == std::string_view::npos) return Status::Ok();
  std::string_view rest = text.substr(colon + 1);
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view pair = rest.substr(0, comma);
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return wrong();
    if (!IsWord(pair.substr(0, equals)) || !IsCodecValue(pair.substr(equals + 1))) return wrong();
    if (comma == std::string_view::npos) return Status::Ok();
    rest = rest.substr(comma + 1);
  }
}

Status CheckReplicaMethod(const RunConfig& c) {
  SHOAL_ASSIGN_OR_RETURN(const replica::ReplicaMethod method,
                         replica::ParseReplicaMethod(c.replica_method));
  const Status fits = method.CheckRun(c.stages, c.pipelines);
  return fits.ok() ? fits : fits.WithContext("replica method '" + c.replica_method + "'");
}

Status CheckRunConfig(const RunConfig& c) {
  if (std::uint64_t{c.stages} * c.pipelines > kPositionsMax) {
    return InvalidArgument("stages x pipelines is above " + std::to_string(kPositionsMax));
  }
  if (c.micro_batches < c.pipelines) {
    return InvalidArgument("micro_batches = " + std::to_string(c.micro_batches) +
                           " gives some of the " + std::to_string(c.pipelines) +
                           " pipelines nothing to do; take at least one per pipeline");
  }
  if (!c.cuts.empty()) {
    if (c.cuts.size() + 1 != c.stages) {
      return InvalidArgument("cuts has " + std::to_string(c.cuts.size()) + " entries, stages = " +
                             std::to_string(c.stages) + " needs " + std::to_string(c.stages - 1));
    }
    if (std::adjacent_find(c.cuts.begin(), c.cuts.end(), std::greater_equal<>()) != c.cuts.end()) {
      return InvalidArgument("cuts must grow from stage to stage");
    }
  }
  if (c.name.empty() || c.name.size() > 64) {
    return InvalidArgument("name must have 1 to 64 characters");
  }
  if (c.adapter_kind == "none" && c.base != "source") {
    return InvalidArgument("base = \"" + c.base +
                           "\" is of a model that stays as it is: without adapters it is trained, "
                           "in fp32; set [adapter] kind = \"lora\" or leave base out");
  }
  if (c.adapter_kind != "none" && c.adapter_targets.empty()) {
    return InvalidArgument("targets names no modules; take [\"all-linear\"], or kind = \"none\"");
  }
  if (c.advertise.size() > 16) return InvalidArgument("advertise has more than 16 addresses");
  if (c.relays.size() > 4) return InvalidArgument("relays has more than 4 addresses");
  for (const std::string& relay : c.relays) {
    SHOAL_RETURN_IF_ERROR(net::ParseRelayAddress(relay).status().WithContext("relays"));
  }
  if (!c.relay_listen.empty()) {
    SHOAL_RETURN_IF_ERROR(net::ParseHostPort(c.relay_listen).status().WithContext("relay_listen"));
  }
  SHOAL_RETURN_IF_ERROR(CheckCodecText("forward", c.forward));
  SHOAL_RETURN_IF_ERROR(CheckCodecText("backward", c.backward));
  SHOAL_RETURN_IF_ERROR(CheckReplicaMethod(c));
  SHOAL_RETURN_IF_ERROR(CheckSpotChecks(c));
  SHOAL_RETURN_IF_ERROR(CheckLogs(c));
  SHOAL_RETURN_IF_ERROR(CheckStore(c));
  SHOAL_RETURN_IF_ERROR(CheckSchedulers(c));
  for (const auto& [key, text] :
       {std::pair{"listen", &c.listen}, std::pair{"status_listen", &c.status_listen}}) {
    if (const auto parsed = net::ParseHostPort(*text); !parsed.ok()) {
      return parsed.status().WithContext(key);
    }
  }
  return Status::Ok();
}

}  // namespace shoal::scheduler
