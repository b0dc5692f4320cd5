#!/usr/bin/env python3
"""A small S3 service for tests: it checks every signature by itself (AWS Signature Version 4, from
its description, with hmac and hashlib), keeps objects in memory, joins uploads of parts, lists in
pages, and fails in the ways that it is told to.

As a program it prints its port, then obeys the lines of standard input and answers each with one:

    fail KIND COUNT [METHOD]   the next COUNT requests (of METHOD; "POST?uploadId": of that query)
                               fail: a status such as 503, "cut" (the connection ends in the midst
                               of the answer, or before a body was taken), "lost" (it is done, and
                               the answer is lost), "hang" (no answer comes), "damage" (a byte of
                               the answer is another),
                               "join" (an answer 200 that says that joining failed)
    counts                     JSON: requests by method, bytes taken, uploads not ended
    page N                     keys in a page of a listing
    put KEY TEXT               an object that somebody else made

It ends with its standard input.
"""

import argparse
import hashlib
import hmac
import json
import re
import ssl
import sys
import threading
import time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

EMPTY = hashlib.sha256(b"").hexdigest()
SKEW_S = 15 * 60
HANG_S = 60


def encode(text, slash=""):
    return quote(text, safe="-._~" + slash)


def canonical_request(method, target, headers, signed, payload_hash):
    """`headers`: lower-case name -> value."""
    path, _, query = target.partition("?")
    pairs = []
    for item in filter(None, query.split("&")):
        name, _, value = item.partition("=")
        pairs.append((encode(unquote(name)), encode(unquote(value))))
    lines = [method, encode(unquote(path), "/"),
             "&".join(f"{name}={value}" for name, value in sorted(pairs))]
    lines += [f"{name}:{' '.join(headers.get(name, '').split())}" for name in signed]
    return "\n".join([*lines, "", ";".join(signed), payload_hash])


def signature(secret, stamp, region, request, service="s3"):
    """Of a canonical request."""
    day = stamp[:8]
    to_sign = "\n".join(["AWS4-HMAC-SHA256", stamp, f"{day}/{region}/{service}/aws4_request",
                         hashlib.sha256(request.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in (day, region, service, "aws4_request", to_sign):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


class Refused(Exception):
    def __init__(self, status, code, message=""):
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Store:
    """What all connections share."""

    def __init__(self, bucket="bucket", key_id="key", secret="secret", region="us-east-1",
                 token=""):
        self.bucket, self.key_id, self.secret = bucket, key_id, secret
        self.region, self.token = region, token
        self.lock = threading.Lock()
        self.objects, self.uploads = {}, {}
        self.failures = []  # [kind, count, method or None]
        self.requests, self.taken, self.page = {}, 0, 1000
        self.puts = []  # keys, in order, of whole objects

    def fail(self, kind, count=1, method=None):
        with self.lock:
            self.failures.append([kind, count, method])

    def take_failure(self, method, target):
        asked = method + target[target.find("?"):] if "?" in target else method
        with self.lock:
            for failure in self.failures:
                if failure[1] > 0 and asked.startswith(failure[2] or ""):
                    failure[1] -= 1
                    return failure[0]
        return None

    def counts(self):
        with self.lock:
            return {"requests": dict(self.requests), "taken": self.taken,
                    "uploads": len(self.uploads), "objects": len(self.objects)}

    def check(self, method, target, headers, body):
        """Raises Refused unless the request is signed as it should be."""
        match = re.fullmatch(r"AWS4-HMAC-SHA256 "
                             r"Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, "
                             r"SignedHeaders=([\w;-]+), Signature=([0-9a-f]{64})",
                             headers.get("authorization", ""))
        if not match:
            raise Refused(403, "AccessDenied", "not signed")
        key_id, day, region, names, given = match.groups()
        signed = names.split(";")
        stamp = headers.get("x-amz-date", "")
        if key_id != self.key_id:
            raise Refused(403, "InvalidAccessKeyId")
        if region != self.region:
            raise Refused(400, "AuthorizationHeaderMalformed", f"the region is {self.region}")
        if not re.fullmatch(r"\d{8}T\d{6}Z", stamp) or stamp[:8] != day:
            raise Refused(403, "AccessDenied", "no date")
        then = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc).timestamp()
        if abs(time.time() - then) > SKEW_S:
            raise Refused(403, "RequestTimeTooSkewed")
        must = {"host", "x-amz-date", "x-amz-content-sha256"}
        must |= {name for name in headers if name.startswith("x-amz-")}
        if signed != sorted(signed) or not must <= set(signed):
            raise Refused(403, "AccessDenied", f"not signed: {must - set(signed)}")
        if headers.get("x-amz-security-token", "") != self.token:
            raise Refused(403, "InvalidToken")
        payload = headers["x-amz-content-sha256"]
        request = canonical_request(method, target, headers, signed, payload)
        if not hmac.compare_digest(signature(self.secret, stamp, region, request), given):
            raise Refused(403, "SignatureDoesNotMatch", request)
        if payload != hashlib.sha256(body).hexdigest():
            raise Refused(400, "XAmzContentSHA256Mismatch")

    # ---- what a request does: (status, headers, body)

    def handle(self, method, target, headers, body):
        path, _, query = target.partition("?")
        values = dict((unquote(n), unquote(v)) for n, _, v in
                      (item.partition("=") for item in filter(None, query.split("&"))))
        bucket, _, key = unquote(path).lstrip("/").partition("/")
        if bucket != self.bucket:
            raise Refused(404, "NoSuchBucket", "there is no such bucket")
        with self.lock:
            if method == "GET" and not key:
                return 200, {}, self.listing(values)
            if method in ("GET", "HEAD"):
                return self.read(method, key, headers)
            if method == "PUT" and "uploadId" in values:
                return self.take_part(values, body)
            if method == "PUT":
                self.objects[key] = body
                self.puts.append(key)
                return 200, {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}, b""
            if method == "POST" and "uploads" in values:
                upload = f"up/load+{len(self.uploads) + 1}=="  # needs encoding, as real ones may
                self.uploads[upload] = (key, {})
                return 200, {}, (f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId>"
                                 "</InitiateMultipartUploadResult>").encode()
            if method == "POST" and "uploadId" in values:
                return self.join(values["uploadId"], key, body)
            if method == "DELETE" and "uploadId" in values:
                self.uploads.pop(values["uploadId"], None)
                return 204, {}, b""
            if method == "DELETE":
                self.objects.pop(key, None)
                return 204, {}, b""
        raise Refused(405, "MethodNotAllowed")

    def read(self, method, key, headers):
        if key not in self.objects:
            raise Refused(404, "NoSuchKey", "there is no such key")
        content = self.objects[key]
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", headers.get("range", ""))
        if method == "HEAD" or not match:
            return 200, {}, content
        first, last = int(match.group(1)), min(int(match.group(2)), len(content) - 1)
        if first >= len(content):
            raise Refused(416, "InvalidRange")
        return (206, {"Content-Range": f"bytes {first}-{last}/{len(content)}"},
                content[first:last + 1])

    def take_part(self, values, body):
        if values["uploadId"] not in self.uploads:
            raise Refused(404, "NoSuchUpload")
        etag = f'"{hashlib.md5(body).hexdigest()}"'
        self.uploads[values["uploadId"]][1][int(values["partNumber"])] = (etag, body)
        return 200, {"ETag": etag}, b""

    def join(self, upload, key, body):
        if upload not in self.uploads or self.uploads[upload][0] != key:
            raise Refused(404, "NoSuchUpload")
        parts = self.uploads[upload][1]
        named = re.findall(r"<PartNumber>(\d+)</PartNumber><ETag>([^<]*)</ETag>", body.decode())
        if [int(number) for number, _ in named] != sorted(parts):
            raise Refused(400, "InvalidPart", "not all parts are named, in order")
        if any(parts[int(number)][0] != etag for number, etag in named):
            raise Refused(400, "InvalidPart", "a part is another")
        self.objects[key] = b"".join(parts[number][1] for number in sorted(parts))
        self.puts.append(key)
        del self.uploads[upload]
        return 200, {}, (b"<CompleteMultipartUploadResult><Key/>"
                         b"</CompleteMultipartUploadResult>")

    def listing(self, values):
        keys = sorted(k for k in self.objects if k.startswith(values.get("prefix", "")))
        if values.get("continuation-token"):
            keys = [k for k in keys if "+" + k > values["continuation-token"]]
        page, rest = keys[:self.page], keys[self.page:]
        text = '<?xml version="1.0" encoding="UTF-8"?>\n'
        text += '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        for key in page:
            text += (f"<Contents><Key>{quote(key)}</Key>"
                     f"<Size>{len(self.objects[key])}</Size></Contents>")
        text += f"<IsTruncated>{'true' if rest else 'false'}</IsTruncated>"
        if rest:
            text += f"<NextContinuationToken>{escape('+' + page[-1])}</NextContinuationToken>"
        return (text + "</ListBucketResult>").encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store = None  # of a subclass

    def log_message(self, *_):
        pass

    def serve(self):
        store = self.store
        size = int(self.headers.get("Content-Length", 0))
        failure = store.take_failure(self.command, self.path)
        if failure == "hang":
            time.sleep(HANG_S)
            self.close_connection = True
            return
        if failure == "cut" and self.command in ("PUT", "POST"):
            self.rfile.read(size // 2)
            self.close_connection = True
            return
        body = self.rfile.read(size)
        with store.lock:
            store.requests[self.command] = store.requests.get(self.command, 0) + 1
            store.taken += len(body)
        try:
            if failure and failure.isdigit():
                raise Refused(int(failure), "SlowDown", "please reduce your rate")
            headers = {name.lower(): value for name, value in self.headers.items()}
            store.check(self.command, self.path, headers, body)
            if failure == "join":
                status, more, answer = 200, {}, (b"<Error><Code>InternalError</Code>"
                                                 b"<Message>try again</Message></Error>")
            else:
                status, more, answer = store.handle(self.command, self.path, headers, body)
        except Refused as refused:
            status, more = refused.status, {}
            answer = (f"<Error><Code>{refused.code}</Code><Message>{escape(refused.message)}"
                      "</Message></Error>").encode()
            if refused.code == "AuthorizationHeaderMalformed":
                more = {"x-amz-bucket-region": store.region}
        if failure == "lost":
            self.close_connection = True
            return
        if failure == "damage" and answer:
            answer = answer[:-1] + bytes([answer[-1] ^ 1])
        self.send_response(status)
        for name, value in more.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(answer[:len(answer) // 2] if failure == "cut" else answer)
        if failure == "cut":
            self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = serve


class Server:
    """Serves a Store on a free port of 127.0.0.1 until close()."""

    def __init__(self, store, certificate=None, key=None):
        self.store = store
        handler = type("StoreHandler", (Handler,), {"store": store})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.port = self.http.server_address[1]
        self.endpoint = f"{'https' if certificate else 'http'}://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name in ("bucket", "key-id", "secret", "region", "token"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--tls", nargs=2, metavar=("CERTIFICATE", "KEY"))
    options = vars(parser.parse_args())
    tls = options.pop("tls") or (None, None)
    server = Server(Store(**{name: value for name, value in options.items() if value}), *tls)
    print(server.port, flush=True)
    for line in sys.stdin:
        words = line.split()
        answer = "ok"
        if words[0] == "fail":
            server.store.fail(words[1], int(words[2]), words[3] if len(words) > 3 else None)
        elif words[0] == "page":
            server.store.page = int(words[1])
        elif words[0] == "put":
            server.store.objects[words[1]] = words[2].encode()
        elif words[0] == "counts":
            answer = json.dumps(server.store.counts())
        print(answer, flush=True)
    server.close()


if __name__ == "__main__":
    main()
