"""One round of requests to a server: clients of all kinds at once, while the process of the device is killed."""
import asyncio
import dataclasses
import json
import signal

import judge
from good import Good, rng_of
from http_load import LIMIT_S, Closed, Connection
from observe import SIGNALS, is_quiet, strike
from wrong import in_chunks, wire, wrong_request

CLIENTS = 48
KEEP_ALIVE = 0.7  # share of answers after which a client goes on with its connection


@dataclasses.dataclass
class Job:
    """A request and how its client behaves."""
    good: Good | None = None
    expected: dict | None = None
    name: str = ""  # of a wrong request
    data: bytes = b""
    status: int | None = 200
    stream: bool = False
    slow: bool = False
    leave_after: int | None = None  # bytes of a stream
    leave_in_s: float | None = None
    abrupt: bool = False  # leaves by a reset
    keep: bool = False


def job_of(maker, rng):
    if rng.random() < 0.12:
        name, data, status = wrong_request(rng)
        return Job(name=name, data=data, status=status)
    good = maker.good(rng)
    job = Job(good=good, stream=rng.random() < 0.5, keep=rng.random() < KEEP_ALIVE, abrupt=rng.random() < 0.3)
    if job.stream:
        good.body.update(stream=True, stream_options={"include_usage": True})
    chance = rng.random()
    if chance < 0.08 and job.stream:
        job.leave_after = int(rng.expovariate(1 / 2000))
    elif chance < 0.12:
        job.leave_in_s = rng.expovariate(1 / 0.03)
    elif chance < 0.15:
        job.slow = True
    body = json.dumps(good.body).encode()
    headers = ["Expect: 100-continue"] if rng.random() < 0.03 else []
    if rng.random() < 0.1:
        job.data = wire(good.path, in_chunks(body, rng), [*headers, "Transfer-Encoding: chunked"])
    else:
        job.data = wire(good.path, body, headers, kind=rng.choice(["application/json", "Application/JSON; charset=utf-8"]))
    return job


def jobs_of(maker, seed, count):
    return [job_of(maker, rng_of(*seed, i)) for i in range(count)]


class Traffic:
    """`counts` gets what was done, and `find` what was wrong."""

    def __init__(self, server, counts, find):
        self.server, self.counts, self.find = server, counts, find

    def count(self, key, by=1):
        self.counts[key] = self.counts.get(key, 0) + by  # reports of earlier forms lack some keys

    def is_quiet(self):
        return is_quiet(self.server)

    async def run(self, jobs, rng):
        strikes = {rng.randrange(len(jobs)): (rng.choice(SIGNALS), rng.expovariate(1 / 0.05)) for _ in range(rng.choice([0, 1, 1, 2]))}
        waiting, tasks = iter(list(enumerate(jobs))), []

        async def client():
            connection = None
            for number, job in waiting:
                if number in strikes:
                    tasks.append(asyncio.create_task(self.strike(*strikes[number])))
                connection = await self.bounded(number, job, connection)
            if connection:
                await connection.close()

        await asyncio.gather(*(client() for _ in range(CLIENTS)))
        await asyncio.gather(*tasks)

    async def strike(self, number, delay):
        await asyncio.sleep(delay)
        if strike(self.server, number):
            self.count("kills")
            by_signal = self.counts["kills_by_signal"]
            by_signal[signal.Signals(number).name] = by_signal.get(signal.Signals(number).name, 0) + 1

    async def bounded(self, number, job, connection):
        """Carries out a job. Returns a connection that the next one may use."""
        self.count("requests")
        try:
            return await asyncio.wait_for(self.do(job, connection), LIMIT_S)
        except TimeoutError:
            self.find("stuck", f"job {number} takes more than {LIMIT_S} s: {job.data[:2000]!r}")
        except (Closed, OSError, ValueError, KeyError, AssertionError) as error:
            self.find("broken", f"job {number}: {type(error).__name__} {error}: {job}")
        return None

    async def do(self, job, connection):
        if connection and (job.slow or not job.good):
            await connection.close()
            connection = None
        if not connection:
            connection = await Connection.open(self.server.port, job.slow)
        keeps = await (self.good if job.good else self.wrong)(job, connection)
        if keeps:
            return connection
        connection.reset() if job.abrupt else await connection.close()
        return None

    async def good(self, job, connection):
        await connection.send(job.data)
        if job.leave_in_s is not None:
            await asyncio.sleep(job.leave_in_s)
            self.count("left early")
            return False
        status, headers, body = await connection.answer(job.slow, job.leave_after)
        if status != 200:
            self.find("refused", f"found status {status}: {body!r}: {job}")
            return False
        if connection.excess:
            raise ValueError(f"bytes follow the answer {body!r}")
        if job.slow:
            self.count("slow readers")
        if connection.left:
            self.count("left early")
            wrong = judge.prefix_difference(job.good, body, job.expected)
        else:
            self.count("streams" if job.stream else "whole")
            self.count("choices", len(job.expected["choices"]))
            self.count("tokens", job.expected["usage"][1])
            if job.good.scored:
                self.count("scored tokens", job.good.n * sum(len(prompt) - 1 for prompt in job.good.prompts))
            wrong = judge.difference(job.good, job.stream, body, job.expected)
        if wrong:
            self.find("answer", f"{wrong}: {job.good}")
        return job.keep and not connection.left and not job.slow and headers["connection"] == "keep-alive"

    async def wrong(self, job, connection):
        await connection.send(job.data)
        by_kind = self.counts["refused_by_kind"]
        by_kind[job.name] = by_kind.get(job.name, 0) + 1
        self.count("refused")
        if job.status is None:
            connection.half_close()
        try:
            status, _, body = await connection.answer()
        except (Closed, ConnectionError):
            if job.status is not None:
                raise
            return False
        wrong = judge.refusal_difference(status, body, job.status or 400)
        if wrong:
            self.find("refusal", f"{job.name}: {wrong}: {job.data[:400]!r}")
        return False
