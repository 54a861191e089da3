"""An HTTP client that reads slowly or leaves early where it is told so."""
import asyncio
import contextlib
import socket

LIMIT_S = 120  # of one request, from its first byte to the last of its answer
SLOW_BYTES, SLOW_PAUSE_S = 2048, 0.004


class Closed(Exception):
    """The server has closed the connection before an answer."""


class Connection:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.early = b""  # what was read beyond an interim answer
        self.left = False  # before the answer's end
        self.excess = False  # bytes came behind the answer

    @staticmethod
    async def open(port, slow=False):
        with socket.socket() as made:
            made.setblocking(False)
            if slow:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
            kept = socket.socket(fileno=made.detach())
        return Connection(*await asyncio.open_connection(sock=kept, limit=SLOW_BYTES if slow else 1 << 16))

    async def send(self, data):
        self.writer.write(data)
        with contextlib.suppress(ConnectionError):  # the server may answer and close before it has read everything
            await self.writer.drain()

    def half_close(self):
        with contextlib.suppress(OSError):
            self.writer.write_eof()

    async def part(self, slow):
        if self.early:
            data, self.early = self.early, b""
            return data
        if slow:
            await asyncio.sleep(SLOW_PAUSE_S)
        data = await self.reader.read(SLOW_BYTES if slow else 1 << 16)
        if not data:
            raise Closed
        return data

    async def answer(self, slow=False, leave_after=None):
        """Returns status, headers in lower case, and the bytes of the body. A client that leaves does so after as many bytes of
        the body, and gets those that it has."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += await self.part(slow)
        head, data = data.split(b"\r\n\r\n", 1)
        if head == b"HTTP/1.1 100 Continue":
            self.early = data
            return await self.answer(slow, leave_after)
        lines = head.decode("latin-1").split("\r\n")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
        chunked = headers.get("transfer-encoding") == "chunked"
        size = int(headers["content-length"]) if not chunked else None
        parts = bytearray(data)
        while not (parts.endswith(b"\r\n0\r\n\r\n") if chunked else len(parts) >= size):
            if leave_after is not None and len(parts) >= leave_after:
                self.left = True
                break
            parts += await self.part(slow)
        self.excess = not chunked and len(parts) > size
        return int(lines[0].split(" ")[1]), headers, dechunked(bytes(parts)) if chunked else bytes(parts[:size])

    async def close(self):
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    def reset(self):
        """Closes so that the server gets an error instead of an end."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()


def dechunked(data):
    """Returns the bytes of all complete chunks."""
    out, at = [], 0
    while (line := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line], 16)
        if size == 0 or len(data) < line + 4 + size:
            break
        if data[line + 2 + size:line + 4 + size] != b"\r\n":
            raise ValueError("a chunk has another length than it says")
        out.append(data[line + 2:line + 2 + size])
        at = line + 4 + size
    return b"".join(out)
