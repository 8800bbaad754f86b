"""Follows the endings of all jobs, and goes on after a restart where it was."""

import nagaya

if __name__ == "__main__":
    with nagaya.Client() as client:
        for event in client.events(subscription="follower", kinds=["succeeded", "failed", "cancelled"], after=0):
            if isinstance(event, nagaya.Gap):
                print(f"events {event.after} to {event.up_to} are gone; look at the jobs themselves", flush=True)
            else:
                print(event.job, event.kind, event.result if event.error is None else event.error, flush=True)
                event.ack()
