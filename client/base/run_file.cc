#include "client/base/run_file.h"

#include <nlohmann/json.hpp>

#include <sstream>

namespace shoal::client {
namespace {

// A JSON string is a TOML basic string. TOML knows UTF-8 only: other bytes are replaced, and the
// scheduler then says that there is no such file.
std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// One section; keys without value are left out, and so is a section without keys.
class Section {
 public:
  explicit Section(const char* name) : name_(name) {}
  void Text(const char* key, const std::string& value) {
    if (!value.empty()) body_ << key << " = " << Quoted(value) << "\n";
  }
  // A list of one text.
  void List(const char* key, const std::string& value) {
    if (!value.empty()) body_ << key << " = [" << Quoted(value) << "]\n";
  }
  void Number(const char* key, std::uint64_t value) {
    if (value != 0) body_ << key << " = " << value << "\n";
  }
  void Number(const char* key, double value) {
    if (value != 0) body_ << key << " = " << nlohmann::json(value).dump() << "\n";
  }
  std::string Format() const {
    return body_.str().empty() ? "" : "[" + std::string(name_) + "]\n" + body_.str() + "\n";
  }

 private:
  const char* const name_;
  std::ostringstream body_;
};

}  // namespace

std::string FormatRunFile(const RunFile& file) {
  Section run("run");
  run.Text("name", file.name);
  run.Text("model", file.model);
  run.Text("data", file.data);
  run.Text("directory", file.directory);
  run.Number("steps", file.steps);
  run.Number("seed", file.seed);
  run.Number("stages", std::uint64_t{file.stages});
  run.Number("pipelines", std::uint64_t{file.pipelines});
  run.Number("micro_batches", std::uint64_t{file.micro_batches});
  run.Number("micro_batch_rows", std::uint64_t{file.micro_batch_rows});
  run.Number("checkpoint_every", file.checkpoint_every);
  Section model("model");
  model.Text("base", file.base);
  Section adapter("adapter");
  adapter.Text("kind", file.adapter);
  adapter.Number("rank", std::uint64_t{file.rank});
  Section codecs("codecs");
  codecs.Text("forward", file.forward);
  codecs.Text("backward", file.backward);
  Section replica("replica");
  replica.Text("method", file.replica);
  Section optimizer("optimizer");
  optimizer.Number("learning_rate", file.learning_rate);
  optimizer.Number("warmup_steps", file.warmup_steps);
  Section schedule("schedule");
  schedule.Text("kind", file.schedule);
  schedule.Number("in_flight_max", std::uint64_t{file.in_flight_max});
  Section network("network");
  network.Text("listen", file.listen);
  network.Text("status_listen", file.status_listen);
  network.List("advertise", file.advertise);
  return run.Format() + model.Format() + adapter.Format() + codecs.Format() + replica.Format() +
         optimizer.Format() + schedule.Format() + network.Format();
}

}  // namespace shoal::client
