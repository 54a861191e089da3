"""Clients of tools/bench/serve. Each sends its requests one after the other, and notes when the events of a stream arrive."""
import asyncio
import json
import time


ALONE_TOKENS = 15  # of each stream, before prompts come in beside it


class Times:
    """Seconds of one run over all its clients."""

    def __init__(self):
        self.first, self.between, self.tokens, self.seconds = [], [], 0, 0.0

    def figures(self):
        gaps = sorted(self.between)
        found = {"tokens_s": self.tokens / self.seconds} if self.seconds else {}
        if self.first:
            found["first_token_ms"] = 1e3 * sorted(self.first)[len(self.first) // 2]
        if gaps:
            found.update(between_ms=1e3 * gaps[len(gaps) // 2], between_p99_ms=1e3 * gaps[len(gaps) * 99 // 100],
                         between_max_ms=1e3 * gaps[-1])
        return found


def request(body):
    data = json.dumps(body).encode()
    return b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        len(data), data)


class Client:
    def __init__(self, reader, writer, times):
        self.reader, self.writer, self.times = reader, writer, times

    async def head(self):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        if not head.startswith("http/1.1 200 "):
            raise SystemExit(f"serve: error: found {head.splitlines()[0]}, expected 200")
        return head

    async def whole(self, body):
        self.writer.write(request(body))
        head = await self.head()
        if "content-length: " in head:
            data = await self.reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
        else:
            data = await self.chunked()
        self.times.tokens += json.loads(data)["usage"]["completion_tokens"]

    async def chunked(self):
        data = b""
        while size := int(await self.reader.readline(), 16):
            data += (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readline()
        return data

    async def stream(self, body):
        """Notes the arrival of each event that has text. Events that arrive together have no time between them.
        Requires a body that ends by max_tokens."""
        begin = last = time.perf_counter()
        self.writer.write(request({**body, "stream": True}))
        await self.head()
        tail, count = b"", 0
        while not tail.endswith(b"0\r\n\r\n"):
            data = await self.reader.read(1 << 16)
            if not data:
                raise SystemExit("serve: error: the server closes a stream")
            now = time.perf_counter()
            for _ in range(data.count(b'"text":"') - data.count(b'"text":"",')):
                if count == 0:
                    self.times.first.append(now - begin)
                else:
                    self.times.between.append(now - last)
                last, count = now, count + 1
            tail = (tail + data)[-16:]
        self.times.tokens += body["max_tokens"]


async def run_clients(port, bodies, clients, streams, times):
    waiting = iter(bodies)

    async def client():
        for body in waiting:  # each on a connection of its own, because not all servers keep one after a stream
            one = Client(*await asyncio.open_connection("127.0.0.1", port), times)
            await (one.stream(body) if streams else one.whole(body))
            one.writer.close()

    begin = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    times.seconds = time.perf_counter() - begin


def measure(port, bodies, clients, streams):
    """Returns the figures of requests by so many clients at once."""
    times = Times()
    asyncio.run(run_clients(port, bodies, clients, streams, times))
    return times.figures()


def measure_beside(port, streams, prompts, clients):
    """Returns the figures of streams alone, then beside prompts that come in by so many clients, and those of the prompts."""
    decodes, alone, beside, fed = Times(), Times(), Times(), Times()

    async def both():
        going = asyncio.create_task(run_clients(port, streams, len(streams), True, decodes))
        while len(decodes.first) < len(streams):
            await asyncio.sleep(0.01)
        decodes.between.clear()
        while len(decodes.between) < ALONE_TOKENS * len(streams):
            await asyncio.sleep(0.01)
        alone.between, decodes.between = decodes.between, []
        await run_clients(port, prompts, clients, True, fed)
        beside.between, still = list(decodes.between), not going.done()
        await going
        return still

    if not asyncio.run(both()):
        raise SystemExit("serve: error: the streams end before the prompts do")
    return alone.figures(), beside.figures(), fed.figures()
