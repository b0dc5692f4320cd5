#include "dataset/prepare/make_samples.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include "dataset/line_error.h"
#include "dataset/prepare/class_labels.h"
#include "dataset/prepare/sample_rows.h"

namespace shoal::dataset {
namespace {

class SampleMaker {
 public:
  SampleMaker(const PrepareOptions& options, const Tokenizer& tokenizer,
              const SampleEncoder& encoder, DataKind kind)
      : options_(options),
        encoder_(encoder),
        threads_(ThreadsOf(options)),
        store_(options.row_tokens) {
    made_.header = HeaderFor(options, tokenizer);
    made_.header.kind = kind;
    made_.header.segmented = options.pack || kind == DataKind::kClasses;
  }

  Result<MadeRows> Run(std::vector<SampleReader> train, std::vector<SampleReader> validation) {
    for (const auto* readers : {&train, &validation}) {
      for (const SampleReader& reader : *readers) made_.report.text_bytes += reader.size();
    }
    for (SampleReader& reader : train) SHOAL_RETURN_IF_ERROR(AddFile(&reader, true));
    SHOAL_RETURN_IF_ERROR(CheckSplit("training", read_, store_.size()));
    std::size_t train_samples = store_.size();
    const std::uint64_t read = read_;
    for (SampleReader& reader : validation) SHOAL_RETURN_IF_ERROR(AddFile(&reader, false));
    if (validation.empty()) {
      train_samples -= HeldOut(train_samples, options_.validation_fraction);
    } else {
      SHOAL_RETURN_IF_ERROR(CheckSplit("validation", read_ - read, store_.size() - train_samples));
    }
    if (made_.header.kind == DataKind::kClasses) SHOAL_RETURN_IF_ERROR(SetClasses(train_samples));
    made_.header.typed = store_.typed();
    made_.header.text = hash_.Finish();
    made_.header.text_tokens = store_.whole_tokens();
    const SampleRows rows =
        ArrangeRows(store_.lengths(), train_samples, options_.row_tokens, options_.pack);
    made_.bytes = WriteSampleRows(store_, train_samples, rows, &made_.header);
    Report();
    return std::move(made_);
  }

 private:
  Status CheckSplit(const std::string& what, std::uint64_t read, std::size_t kept) const {
    if (read == 0) {
      return InvalidArgument("the " + what + " files are empty: they have no samples");
    }
    if (kept > 0) return Status::Ok();
    return InvalidArgument("none of the " + std::to_string(read) + " " + what +
                           " samples has a token that the loss counts on within a row of " +
                           std::to_string(options_.row_tokens) +
                           ": use a longer --row or --loss all, or see whether answers are empty");
  }

  Status AddFile(SampleReader* reader, bool training) {
    for (;;) {
      std::vector<SampleRecord> records;
      std::size_t bytes = 0;
      for (unsigned i = 0; i < threads_ * kBatchesPerThread; ++i) {
        SampleBatch batch;
        SHOAL_RETURN_IF_ERROR(reader->Next(kBatchBytes, &batch, &hash_));
        if (batch.file_bytes == 0) break;
        bytes += batch.file_bytes;
        std::move(batch.records.begin(), batch.records.end(), std::back_inserter(records));
      }
      if (bytes == 0) return Status::Ok();
      SHOAL_RETURN_IF_ERROR(AddRecords(*reader, records, training));
      done_bytes_ += bytes;
      if (options_.progress) options_.progress(done_bytes_, made_.report.text_bytes);
    }
  }

  // The first record that is wrong is the one that is told, whatever thread finds it.
  Status AddRecords(const SampleReader& reader, const std::vector<SampleRecord>& records,
                    bool training) {
    std::vector<EncodedSample> samples(records.size());
    std::vector<Status> errors(records.size());
    ForEachOnThreads(records.size(), threads_, [&](std::size_t i) {
      errors[i] = EncodeRecord(reader, records[i], &samples[i]);
    });
    for (std::size_t i = 0; i < records.size(); ++i) {
      SHOAL_RETURN_IF_ERROR(errors[i]);
      ++read_;
      const std::uint32_t label =
          made_.header.kind == DataKind::kClasses
              ? NumberOf(samples[i].label, reader.path(), records[i].line, training)
              : 0;
      const bool document = reader.form() == SampleForm::kDocument;
      store_.Add(samples[i], label, document ? LongSamples::kDivide : LongSamples::kCut);
      samples[i] = {};
    }
    return Status::Ok();
  }

  Status EncodeRecord(const SampleReader& reader, const SampleRecord& record,
                      EncodedSample* sample) const {
    SHOAL_ASSIGN_OR_RETURN(const RawSample raw, reader.Parse(record));
    Result<EncodedSample> encoded = encoder_.Encode(raw);
    if (!encoded.ok()) return LineError(reader.path(), record.line, encoded.status());
    *sample = std::move(*encoded);
    const Status room = CheckRoom(*sample);
    return room.ok() ? room : LineError(reader.path(), record.line, room);
  }

  // Of a row for a token of each of two texts.
  Status CheckRoom(const EncodedSample& sample) const {
    if (!sample.pair) return Status::Ok();
    const auto& [first, first_end, second, second_end] = *sample.pair;
    const std::size_t around = sample.ids.size() - (first_end - first) - (second_end - second);
    if (options_.row_tokens >= around + 2) return Status::Ok();
    return InvalidArgument("a row of " + std::to_string(options_.row_tokens) +
                           " tokens has no room for two texts among the " + std::to_string(around) +
                           " that the tokenizer puts around them: use a longer --row");
  }

  // Labels are numbered as they are seen; SetClasses knows which classes they are.
  std::uint32_t NumberOf(const std::string& label, const std::string& path, std::uint64_t line,
                         bool training) {
    const auto [entry, is_new] =
        label_numbers_.emplace(label, static_cast<std::uint32_t>(labels_.size()));
    if (is_new) labels_.push_back({label, path + ", line " + std::to_string(line), training});
    return entry->second;
  }

  Status SetClasses(std::size_t train_samples) {
    SHOAL_ASSIGN_OR_RETURN(ClassLabels classes, AssignClasses(labels_));
    store_.MapLabels(classes.class_of);
    made_.header.classes = classes.classes;
    made_.report.classes = std::move(classes.names);
    NoteOneClass(store_.labels().first(train_samples), "training");
    NoteOneClass(store_.labels().subspan(train_samples), "validation");
    return Status::Ok();
  }

  // Files are often sorted by label, and the last part of one is held out.
  void NoteOneClass(std::span<const std::uint32_t> labels, const std::string& what) {
    const auto other = std::find_if(labels.begin(), labels.end(),
                                    [&](std::uint32_t label) { return label != labels.front(); });
    if (labels.empty() || other != labels.end()) return;
    made_.report.notes.push_back("all " + what + " rows have the class " +
                                 std::to_string(labels.front()) +
                                 ": shuffle the texts, or name --validation files");
  }

  void Report() {
    PrepareReport& report = made_.report;
    report.documents = read_;
    report.lengths = HistogramOf(store_.whole_lengths());
    report.cuts = store_.cuts();
    report.used_tokens = made_.header.train.tokens + made_.header.validation.tokens;
    report.loss_tokens = made_.header.kind == DataKind::kClasses
                             ? store_.size()
                             : static_cast<std::uint64_t>(
                                   std::count(store_.counts().begin(), store_.counts().end(), 1));
    if (report.cuts.dropped_samples > 0) {
      report.notes.push_back(std::to_string(report.cuts.dropped_samples) + " of " +
                             std::to_string(read_) +
                             " samples were left out: they are empty, or the loss counts on none "
                             "of their tokens within a row");
    }
  }

  const PrepareOptions& options_;
  const SampleEncoder& encoder_;
  const unsigned threads_;
  MadeRows made_;
  SampleStore store_;
  Sha256 hash_;
  std::map<std::string, std::uint32_t> label_numbers_;
  std::vector<SeenLabel> labels_;
  std::uint64_t read_ = 0;
  std::uint64_t done_bytes_ = 0;
};

}  // namespace

Result<MadeRows> MakeSampleRows(const PrepareOptions& options, const Tokenizer& tokenizer,
                                const SampleEncoder& encoder, DataKind kind,
                                std::vector<SampleReader> train,
                                std::vector<SampleReader> validation) {
  return SampleMaker(options, tokenizer, encoder, kind)
      .Run(std::move(train), std::move(validation));
}

}  // namespace shoal::dataset
