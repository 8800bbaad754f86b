-- Lets everybody finish who has a tag locked, and keeps others from locking one.
LOCK TABLE room_tags IN EXCLUSIVE MODE
