#include "net/objects/s3_answers.h"

#include <expat.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "common/hex.h"

namespace shoal::net {
namespace {

constexpr std::size_t kDepthMax = 16;
constexpr std::size_t kTextBytesMax = 4096;
constexpr std::size_t kEntriesMax = 1000;
constexpr std::size_t kAnswerBytesMax = 16 << 20;
constexpr std::size_t kErrorBytesMax = 300;  // of what people read of it

// What a document says: "Root/Element/Element" and its text, for each element at its end.
class Reader {
 public:
  using Visit = std::function<Status(const std::string& path, const std::string& text)>;

  explicit Reader(Visit visit) : visit_(std::move(visit)), parser_(XML_ParserCreate(nullptr)) {}

  Status Read(std::string_view xml) {
    XML_Parser parser = parser_.get();
    if (parser == nullptr) return ResourceExhausted("no memory for an XML parser");
    // Some services send spaces while they work, so that the connection stays.
    xml.remove_prefix(std::min(xml.find_first_not_of(" \r\n\t"), xml.size()));
    if (xml.size() > kAnswerBytesMax) return DataLoss("the answer is too large");
    XML_SetUserData(parser, this);
    XML_SetElementHandler(parser, &Begin, &End);
    XML_SetCharacterDataHandler(parser, &Text);
    XML_SetStartDoctypeDeclHandler(parser, &Doctype);
    const auto done = XML_Parse(parser, xml.data(), static_cast<int>(xml.size()), XML_TRUE);
    if (!status_.ok()) return status_;
    if (done == XML_STATUS_OK) return Status::Ok();
    return DataLoss(std::string("the answer is no XML: ") +
                    XML_ErrorString(XML_GetErrorCode(parser)));
  }

 private:
  struct Free {
    void operator()(XML_Parser parser) const { XML_ParserFree(parser); }
  };

  void Fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
    XML_StopParser(parser_.get(), XML_FALSE);
  }

  static void XMLCALL Begin(void* self, const XML_Char* name, const XML_Char**) {
    Reader& reader = *static_cast<Reader*>(self);
    if (++reader.depth_ > kDepthMax || std::string_view(name).size() > kTextBytesMax) {
      return reader.Fail(DataLoss("the answer nests too deep"));
    }
    reader.path_ += (reader.path_.empty() ? "" : "/") + std::string(name);
    reader.text_.clear();
  }
  static void XMLCALL End(void* self, const XML_Char*) {
    Reader& reader = *static_cast<Reader*>(self);
    if (!reader.status_.ok()) return;
    if (Status status = reader.visit_(reader.path_, reader.text_); !status.ok()) {
      return reader.Fail(std::move(status));
    }
    const std::size_t slash = reader.path_.rfind('/');
    reader.path_.resize(slash == std::string::npos ? 0 : slash);
    reader.text_.clear();
    --reader.depth_;
  }
  static void XMLCALL Text(void* self, const XML_Char* text, int size) {
    Reader& reader = *static_cast<Reader*>(self);
    if (reader.text_.size() + static_cast<std::size_t>(size) > kTextBytesMax) {
      return reader.Fail(DataLoss("the answer has a text that is too long"));
    }
    reader.text_.append(text, static_cast<std::size_t>(size));
  }
  static void XMLCALL Doctype(void* self, const XML_Char*, const XML_Char*, const XML_Char*, int) {
    static_cast<Reader*>(self)->Fail(DataLoss("the answer declares a document type"));
  }

  const Visit visit_;
  const std::unique_ptr<std::remove_pointer_t<XML_Parser>, Free> parser_;
  Status status_;
  std::string path_, text_;
  std::size_t depth_ = 0;
};

bool IsPrintable(char c) { return c > ' ' && c < 0x7f; }

// For a one-line message.
std::string Readable(std::string_view text) {
  std::string readable;
  for (const char c : text.substr(0, kErrorBytesMax)) readable += IsPrintable(c) ? c : ' ';
  return readable;
}

}  // namespace

Result<std::string> DecodePercent(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? HexValue(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? HexValue(text[i + 2]) : -1;
    if (high < 0 || low < 0) return DataLoss("a key is not encoded as it should be");
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

std::string EncodePercent(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

Result<S3Listing> ParseS3Listing(std::string_view xml) {
  S3Listing listing;
  ObjectInfo object;
  bool has_key = false, has_size = false, truncated = false, whole = false;
  Reader reader([&](const std::string& path, const std::string& text) -> Status {
    if (path == "ListBucketResult/Contents/Key") {
      SHOAL_ASSIGN_OR_RETURN(object.key, DecodePercent(text));
      has_key = true;
    } else if (path == "ListBucketResult/Contents/Size") {
      const char* const end = text.data() + text.size();
      const auto [rest, error] = std::from_chars(text.data(), end, object.size);
      if (error != std::errc() || rest != end) return DataLoss("an object's size is no number");
      has_size = true;
    } else if (path == "ListBucketResult/Contents") {
      if (!std::exchange(has_key, false) || !std::exchange(has_size, false)) {
        return DataLoss("an object is listed without key or size");
      }
      if (listing.objects.size() == kEntriesMax) return DataLoss("a page lists too many objects");
      listing.objects.push_back(std::exchange(object, {}));
    } else if (path == "ListBucketResult/IsTruncated") {
      truncated = text == "true";
    } else if (path == "ListBucketResult/NextContinuationToken") {
      listing.next = text;
    } else if (path == "ListBucketResult") {
      whole = true;
    }
    return Status::Ok();
  });
  SHOAL_RETURN_IF_ERROR(reader.Read(xml));
  if (!whole) return DataLoss("the answer is no listing");
  if (truncated && listing.next.empty()) return DataLoss("a listing goes on without saying where");
  if (!truncated) listing.next.clear();
  return listing;
}

Result<std::string> ParseS3UploadId(std::string_view xml) {
  std::string id;
  Reader reader([&](const std::string& path, const std::string& text) {
    if (path == "InitiateMultipartUploadResult/UploadId") id = text;
    return Status::Ok();
  });
  SHOAL_RETURN_IF_ERROR(reader.Read(xml));
  for (const char c : id) {
    if (!IsPrintable(c)) return DataLoss("the id of an upload has other than printable bytes");
  }
  if (id.empty()) return DataLoss("an upload has no id");
  return id;
}

Status ParseS3Completed(std::string_view xml) {
  bool made = false;
  Reader reader([&](const std::string& path, const std::string&) {
    made = made || path == "CompleteMultipartUploadResult";
    return Status::Ok();
  });
  SHOAL_RETURN_IF_ERROR(reader.Read(xml));
  if (made) return Status::Ok();
  const S3Error error = ParseS3Error(xml);
  return Unavailable("the parts were not joined" + (error.code.empty() ? "" : ": " + error.code));
}

S3Error ParseS3Error(std::string_view xml) {
  S3Error error;
  Reader reader([&](const std::string& path, const std::string& text) {
    if (path == "Error/Code") error.code = Readable(text);
    if (path == "Error/Message") error.message = Readable(text);
    return Status::Ok();
  });
  return reader.Read(xml).ok() ? error : S3Error{};
}

}  // namespace shoal::net
