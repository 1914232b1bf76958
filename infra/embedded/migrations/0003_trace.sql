-- The span that sent a message (W3C traceparent).
ALTER TABLE Messages ADD COLUMN trace TEXT;
