"""A worker with a typed payload, progress and errors.

Run it with `nagaya-worker thumbnails:app`, and `python thumbnails.py URL` to register a job and wait for it.
"""

import sys
from dataclasses import dataclass

import nagaya

app = nagaya.App(queue="thumbnails")


@dataclass
class Picture:
    url: str
    width: int = 100


@app.job(bind=True, timeout=30, max_retries=3)
async def thumbnail(attempt: nagaya.Attempt, picture: Picture) -> dict[str, str]:
    await attempt.aprogress(0.1, f"fetching {picture.url}")
    if picture.url.endswith(".pdf"):
        raise nagaya.Permanent(f"{picture.url} is no picture")
    if picture.url.endswith(".heic"):
        raise nagaya.RetryAfter(60, "the decoder is being installed")
    return {"thumbnail": f"{picture.url}?width={picture.width}"}


if __name__ == "__main__":
    print(thumbnail.enqueue(Picture(sys.argv[1])).wait(30))
