"""A local server that speaks the chat completions of OpenAI, over real sockets, and misbehaves on demand."""

import json
import socket
import struct
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        server = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.requests.append((self.path, self.headers, json.loads(body)))
        with server.lock:
            script = server.script.pop(0)
        script(self)

    def log_message(self, *args):
        pass

    def send(self, status, body, headers=()):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def answer(text, finish="stop", usage=(11, 7)):
    body = {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "small",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": finish,
            }
        ],
    }
    if usage:
        body["usage"] = {
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "total_tokens": sum(usage),
        }
    return lambda handler: handler.send(200, body)


def error(status, message, headers=(), code=None):
    body = {"error": {"message": message, "type": "error", "code": code}}
    return lambda handler: handler.send(status, body, headers)


def raw(data):
    return lambda handler: handler.send(200, data)


def cut(handler):
    """Half of the body, then a reset."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "4000")
    handler.end_headers()
    handler.wfile.write(b'{"id": "c1", "choices": [')
    handler.wfile.flush()
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.close()


def silent(handler):
    """No answer until the server is closed."""
    handler.server.closing.wait(30)
    handler.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


@contextmanager
def serving(*script):
    """A server that answers the requests in turn as `script` says; its `url` ends in /v1."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.script, server.requests = list(script), []
    server.lock, server.closing = threading.Lock(), threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
