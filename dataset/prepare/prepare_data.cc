#include "dataset/prepare/prepare_data.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <utility>

#include "common/file.h"
#include "dataset/chat/chat_template.h"
#include "dataset/data_header.h"
#include "dataset/prepare/made_rows.h"
#include "dataset/prepare/make_samples.h"
#include "dataset/prepare/sample_reader.h"
#include "dataset/prepare/text_rows.h"
#include "dataset/tokenizer.h"

namespace shoal::dataset {
namespace {

Status CheckOptions(const PrepareOptions& options) {
  if (options.text_files.empty()) return InvalidArgument("no text given: name a file with --text");
  if (options.row_tokens < kMinRowTokens || options.row_tokens > kMaxRowTokens) {
    return InvalidArgument("a row of " + std::to_string(options.row_tokens) +
                           " tokens is not possible: choose 2 to 65536, at most the model's "
                           "positions");
  }
  if (!(options.validation_fraction >= 0 && options.validation_fraction <= 0.9)) {
    return InvalidArgument("the validation fraction must be from 0 to 0.9");
  }
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return InvalidArgument("the number of threads must be from 0 (one per core) to 256");
  }
  return Status::Ok();
}

// What an earlier run made may be replaced, and a file of nothing.
bool IsPreparedFile(const std::string& path) {
  if (!CheckRegularFile(path).ok()) return false;
  const auto file = MappedFile::Open(path);
  if (!file.ok()) return false;
  const auto header = DecodeDataHeader(
      (*file)->bytes().first(std::min((*file)->bytes().size(), kDataHeaderBytes)), 0);
  return (*file)->bytes().empty() || header.status().code() != StatusCode::kInvalidArgument;
}

// Found out before the long work, not after it.
Status CheckOutput(const PrepareOptions& options) {
  const std::filesystem::path output(options.output);
  std::error_code ignored;
  if (options.output.empty()) return InvalidArgument("no output given: name a file with --out");
  if (std::filesystem::is_directory(output, ignored)) {
    return InvalidArgument(options.output + " is a folder: name a file with --out");
  }
  const auto folder = output.has_parent_path() ? output.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, ignored)) {
    return NotFound("the folder of " + options.output + " does not exist: make it first");
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    return PermissionDenied("cannot write into the folder of " + options.output +
                            ": choose another --out");
  }
  for (const auto* files : {&options.text_files, &options.validation_files}) {
    for (const std::string& file : *files) {
      if (std::filesystem::equivalent(output, file, ignored)) {
        return InvalidArgument("the output " + options.output +
                               " is one of the texts: choose another --out");
      }
    }
  }
  if (std::filesystem::exists(output, ignored) && !IsPreparedFile(options.output)) {
    return AlreadyExists(options.output +
                         " exists and is no prepared data; choose another --out, or remove it");
  }
  return Status::Ok();
}

struct Inputs {
  std::vector<SampleReader> train;
  std::vector<SampleReader> validation;
  std::string first;  // path of the first file that has samples
  std::optional<SampleForm> form;
  std::string conversations;  // path of the first file that has them; empty: none has
};

DataKind KindOf(SampleForm form) {
  switch (form) {
    case SampleForm::kDocument: return DataKind::kText;
    case SampleForm::kClass: return DataKind::kClasses;
    case SampleForm::kCompletion:
    case SampleForm::kConversation: break;
  }
  return DataKind::kSamples;
}

Status OpenAll(const std::vector<std::string>& files, const SampleColumns& columns, Inputs* inputs,
               std::vector<SampleReader>* readers) {
  for (const std::string& file : files) {
    SHOAL_ASSIGN_OR_RETURN(SampleReader reader, SampleReader::Open(file, columns));
    const std::optional<SampleForm> form = reader.form();
    readers->push_back(std::move(reader));
    if (!form) continue;
    if (!inputs->form) {
      inputs->form = form;
      inputs->first = file;
    } else if (KindOf(*form) != KindOf(*inputs->form)) {
      return InvalidArgument(file + " has " + std::string(NameOf(*form)) + ", " + inputs->first +
                             " has " + std::string(NameOf(*inputs->form)) +
                             ": prepare them apart, each with an --out of its own");
    }
    if (form == SampleForm::kConversation && inputs->conversations.empty()) {
      inputs->conversations = file;
    }
  }
  return Status::Ok();
}

Result<Inputs> OpenInputs(const PrepareOptions& options) {
  Inputs inputs;
  SHOAL_RETURN_IF_ERROR(OpenAll(options.text_files, options.columns, &inputs, &inputs.train));
  SHOAL_RETURN_IF_ERROR(
      OpenAll(options.validation_files, options.columns, &inputs, &inputs.validation));
  return inputs;
}

// A row of classification has room for a token between those that the tokenizer puts around it.
Status CheckClasses(const PrepareOptions& options, const Tokenizer& tokenizer) {
  if (options.pack) {
    return InvalidArgument("--pack is not for labelled texts, which have a row each: leave it out");
  }
  const Wrapping& around = tokenizer.wrapping();
  const std::size_t fewest = around.before.size() + around.behind.size() + 1;
  if (options.row_tokens >= fewest) return Status::Ok();
  return InvalidArgument("a row of " + std::to_string(options.row_tokens) +
                         " tokens has no room for text between the " + std::to_string(fewest - 1) +
                         " that the tokenizer puts around it: use a longer --row");
}

Result<std::optional<ChatTemplate>> LoadTemplate(const PrepareOptions& options,
                                                 const std::string& conversations) {
  if (conversations.empty()) return std::optional<ChatTemplate>();
  auto chat_template = ChatTemplate::LoadFrom(options.tokenizer_directory);
  if (chat_template.ok() && !*chat_template) {
    return FailedPrecondition(
        conversations + " has conversations, but " + options.tokenizer_directory +
        " has no chat template: copy chat_template.jinja, or a tokenizer_config.json that has "
        "\"chat_template\", from a model that was made for conversations");
  }
  return chat_template;
}

Result<MadeRows> MakeRows(const PrepareOptions& options, const Tokenizer& tokenizer) {
  SHOAL_ASSIGN_OR_RETURN(Inputs inputs, OpenInputs(options));
  DataKind kind = inputs.form ? KindOf(*inputs.form) : DataKind::kText;
  if (kind == DataKind::kText && !options.pack) return MakeTextRows(options, tokenizer);
  if (kind == DataKind::kClasses) SHOAL_RETURN_IF_ERROR(CheckClasses(options, tokenizer));
  if (kind == DataKind::kText) kind = DataKind::kSamples;
  SHOAL_ASSIGN_OR_RETURN(const auto chat_template, LoadTemplate(options, inputs.conversations));
  ChatOptions chat;
  chat.now = options.now;
  const SampleEncoder encoder(tokenizer, chat_template ? &*chat_template : nullptr, options.loss,
                              chat);
  return MakeSampleRows(options, tokenizer, encoder, kind, std::move(inputs.train),
                        std::move(inputs.validation));
}

Status FinishHeader(const Tokenizer& tokenizer, MadeRows* made) {
  if (!DigestFromHex(tokenizer.fingerprint(), &made->header.tokenizer)) {
    return Internal("the tokenizer's fingerprint is not SHA-256");
  }
  const auto head = EncodeDataHeader(made->header);
  std::copy_n(reinterpret_cast<const char*>(head.data()), head.size(), made->bytes.begin());
  return Status::Ok();
}

// What was written, as who trains on it reads it.
Status Preview(const std::string& path, const Tokenizer& tokenizer, PrepareReport* report) {
  SHOAL_ASSIGN_OR_RETURN(const auto data, OpenPreparedData(path));
  report->info = data->info();
  SHOAL_ASSIGN_OR_RETURN(report->first_row, PreviewRow(*data, SampleId{0}, tokenizer));
  if (report->info.kind != DataKind::kClasses) return Status::Ok();
  std::vector<std::int32_t> tokens, labels, segments;
  SHOAL_RETURN_IF_ERROR(data->AppendRow(SampleId{0}, &tokens, &labels, &segments));
  report->first_label = labels.front();
  return Status::Ok();
}

Result<PrepareReport> Prepare(const PrepareOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  SHOAL_RETURN_IF_ERROR(CheckOptions(options));
  SHOAL_RETURN_IF_ERROR(CheckOutput(options));
  SHOAL_ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizer(options.tokenizer_directory));
  SHOAL_ASSIGN_OR_RETURN(MadeRows made, MakeRows(options, *tokenizer));
  SHOAL_RETURN_IF_ERROR(FinishHeader(*tokenizer, &made));
  if (const Status status = WriteFileAtomic(options.output, made.bytes); !status.ok()) {
    return Status(status.code(), status.message() +
                                     "; nothing was replaced: free space there or choose another "
                                     "--out");
  }
  PrepareReport report = std::move(made.report);
  report.separated = tokenizer->end_of_text().has_value();
  report.notes.insert(report.notes.begin(), tokenizer->notes().begin(), tokenizer->notes().end());
  SHOAL_RETURN_IF_ERROR(Preview(options.output, *tokenizer, &report));
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace

Result<PrepareReport> PrepareData(const PrepareOptions& options) {
  try {
    return Prepare(options);
  } catch (const std::exception& error) {
    return ResourceExhausted(std::string("out of memory, threads or time while preparing data (") +
                             error.what() +
                             "): prepare less text at once, use fewer --threads or a tokenizer "
                             "with simpler patterns");
  }
}

}  // namespace shoal::dataset
